-- today: full, nondeterministic
SELECT k, current_date() AS t FROM a

-- now_filter: full, nondeterministic
SELECT k FROM a WHERE d < now() OR k = 1

-- random: full, nondeterministic
SELECT k, rand() AS r FROM a

-- ids: full, nondeterministic
SELECT uuid() AS id, k FROM b

-- numbered: full, nondeterministic
SELECT monotonically_increasing_id() AS i, k FROM b

-- sample: full, nondeterministic
SELECT k FROM a TABLESAMPLE (50 PERCENT)

-- constant: full, no_source
SELECT 1 AS one

-- recursive: incremental
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT b.k, n.i FROM b JOIN n ON b.y = n.i

-- count_star_and_column: full, clause
SELECT count(*, k) AS n FROM a

-- count_distinct_star: full, clause
SELECT count(DISTINCT *) AS n FROM b

-- count_star_and_column_in_subquery: full, clause
SELECT k, (SELECT count(*, y) FROM b WHERE b.k = a.k) AS n FROM a

-- window_of_a_window: full, clause
SELECT k, sum(x) OVER w AS r, max(x) OVER v AS q FROM a WINDOW w AS (PARTITION BY k), v AS w

-- identifier_of_a_derived_column: full, clause
SELECT k FROM (SELECT x AS k, k AS z FROM a) WHERE IDENTIFIER('k') = 1

-- lambda_called_as_its_table: full, clause
SELECT k, transform(array(named_struct('k', 1, 'x', 2)), a -> a.k + x) AS r FROM a

-- left_lateral_generator_without_on: full, clause
SELECT a.k, t.e FROM a LEFT JOIN LATERAL explode(arr) AS t(e)

-- least_literals: full, round_trip
SELECT k, -128Y AS y, -9223372036854775808L AS l FROM a

-- subscript_of_a_made_array: full, round_trip
SELECT k, array(array(1, 2), array(3))[0][1] AS r FROM a

-- values_without_parentheses: full, round_trip
SELECT t.q, c.z FROM VALUES 1, 2 AS t(q) JOIN c ON c.y = t.q

-- explode_of_a_map: full, schema
SELECT k, explode(map(k, x)) FROM a WHERE k IS NOT NULL

-- qualify_of_a_name_twice: full, clause
SELECT -k AS k, rank() OVER (ORDER BY x) AS r FROM a QUALIFY r < 8 AND k = -1

-- having_of_a_joined_name_twice: full, clause
SELECT -k AS k, count(*) AS n FROM a JOIN b USING (k) GROUP BY k HAVING n > 0 AND k < -1

-- generator_in_exists: full, clause
SELECT k FROM b WHERE EXISTS (SELECT explode(a.arr) AS e FROM a WHERE a.k = b.k)

-- using_in_parentheses: full, clause
SELECT k, n FROM (a JOIN b USING (k)) JOIN (SELECT k AS kk FROM b) q ON q.kk = a.k

-- using_after_a_comma: full, clause
SELECT c.z, b.n FROM c, a JOIN b USING (k)

-- cut_by_one_of_two_names: full, clause
SELECT q.n FROM (SELECT a.k, b.k, b.n FROM a JOIN b ON a.x = b.y ORDER BY b.k DESC, b.n LIMIT 3) q

-- cut_by_a_position_of_two_names: full, clause
SELECT q.n FROM (SELECT a.k, b.k, b.n FROM a JOIN b ON a.x = b.y ORDER BY 2 DESC, b.n LIMIT 3) q

-- star_of_a_table_beside_using: full, round_trip
SELECT a.*, b.y FROM (SELECT x, k FROM a) a JOIN b USING (k)

-- key_of_two_tables_before_using: full, round_trip
SELECT b.n FROM b JOIN (SELECT k, x FROM a) a ON a.x = b.y JOIN (SELECT k, y FROM b) q USING (k, y)

-- alias_within_an_aggregate_of_having: full, round_trip
SELECT k, upper(k) AS s, count(*) AS n FROM a GROUP BY k HAVING bool_or(s = 'a')

-- alias_in_the_where_of_a_subquery: full, round_trip
SELECT k FROM a WHERE EXISTS (SELECT b.y AS x FROM b WHERE b.k = x)

-- field_that_is_called_as_another_table: full, clause
SELECT st.k FROM b AS st WHERE EXISTS (SELECT 1 FROM a WHERE st.u = 1)

-- cut_before_its_columns_are_renamed: full, round_trip
SELECT q.x FROM (SELECT x, k FROM a ORDER BY k, x LIMIT 2) AS q(k, x)

-- distinct_star_of_two_names: full, clause
SELECT count(*) AS n FROM (SELECT DISTINCT * FROM (SELECT a.k, b.k, a.x FROM a JOIN b ON a.x = b.y) d) e

-- star_without_a_field: full, clause
SELECT to_json(st) AS j FROM (SELECT * EXCEPT (st.u) FROM a)

-- group_by_what_reads_a_constant: full, round_trip
SELECT 5 AS most, sum(x) AS s FROM a GROUP BY k > most

-- sliding_window_in_a_derived_table: full, clause
SELECT q.s, count(*) AS n FROM (SELECT window(CAST(d AS timestamp), '2 days', '1 day').start AS s FROM a) q GROUP BY q.s

-- number_with_a_letter_beside_decimals: full, round_trip
SELECT k, CAST(p / 3L AS double) AS q FROM a

-- rollup_of_a_constant: full, clause
SELECT 'x' AS l, k, count(*) + 1 AS n FROM a GROUP BY ROLLUP (l, k)

-- lambda_in_another_case: full, round_trip
SELECT transform(arr, X -> x + 1) AS y FROM a

-- pivot_of_a_product: full, round_trip
SELECT * FROM (SELECT k, x FROM a) q CROSS JOIN c PIVOT (sum(z) AS s FOR y IN (1 AS one))

-- arrays_zip_in_a_text: full, round_trip
SELECT to_json(arrays_zip(u, w, u)) AS v FROM (SELECT arr AS u, reverse(arr) AS w FROM a)

-- texts_of_bytes: full, clause
SELECT k, length(listagg(CAST(s AS BINARY))) AS n FROM a GROUP BY k

-- alias_in_a_subquery_beside_a_recursion: full, round_trip
WITH RECURSIVE r (i) AS (SELECT k FROM b UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT a.k, r.i FROM a JOIN r ON r.i = a.k WHERE EXISTS (SELECT b.y AS x FROM b WHERE b.k = x)

-- texts_of_bytes_in_a_value: full, clause
SELECT b.k, (SELECT length(listagg(CAST(o.s AS BINARY))) FROM a o WHERE o.k = b.k) AS n FROM b

-- lambda_in_another_case_in_a_value: full, round_trip
SELECT b.k, (SELECT max(element_at(transform(q.arr, X -> x + 1), 1)) FROM a q WHERE size(q.arr) > 0) AS v FROM b

-- field_of_an_entry_of_with_that_is_called_as_another_table: full, round_trip
WITH o AS (SELECT x, struct(k, x AS y) AS b FROM a) SELECT b.k FROM b WHERE EXISTS (SELECT 1 FROM o WHERE b.y = 2)

-- order_by_what_is_selected_below_a_usual_limit: full, round_trip
WITH c AS (SELECT k, st FROM a) SELECT q.k, count(*) AS n FROM (SELECT k, named_struct('u', -k, 'w', 1) AS st FROM c ORDER BY st.u LIMIT 10) q GROUP BY q.k

-- order_by_what_is_selected_below_a_usual_offset: full, round_trip
WITH c AS (SELECT k, st FROM a) SELECT q.k, b.y FROM (SELECT k, named_struct('u', -k, 'w', 1) AS st FROM c ORDER BY st.u OFFSET 30) q JOIN b ON b.k = q.k

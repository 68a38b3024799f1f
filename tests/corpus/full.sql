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

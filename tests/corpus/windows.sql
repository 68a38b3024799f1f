-- row_number: incremental
SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x, p, s) AS rn FROM a

-- ranks: incremental
SELECT k, x, rank() OVER (PARTITION BY k ORDER BY x) AS r, dense_rank() OVER (PARTITION BY k ORDER BY x) AS dr, percent_rank() OVER (PARTITION BY k ORDER BY x) AS pr, cume_dist() OVER (PARTITION BY k ORDER BY x) AS cd FROM a

-- ntile: incremental
SELECT k, x, ntile(2) OVER (PARTITION BY k ORDER BY x, d) AS h FROM a

-- lag_lead: incremental
SELECT k, d, x, lag(x) OVER (PARTITION BY k ORDER BY d, x) AS before, lead(x, 1, 0) OVER (PARTITION BY k ORDER BY d, x) AS after FROM a

-- running_sum: incremental
SELECT k, d, sum(x) OVER (PARTITION BY k ORDER BY d) AS run FROM a

-- moving_average: incremental
SELECT k, d, avg(p) OVER (PARTITION BY k ORDER BY d, x, p ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m FROM a

-- range_frame: incremental
SELECT k, x, count(*) OVER (PARTITION BY k ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM a

-- partition_total: incremental
SELECT k, x, sum(x) OVER (PARTITION BY k) AS t, try_divide(x, sum(x) OVER (PARTITION BY k)) AS share FROM a

-- two_partitions: incremental
SELECT k, s, count(*) OVER (PARTITION BY k) AS nk, count(*) OVER (PARTITION BY k, s) AS nks FROM a

-- disjoint_partitions: incremental
SELECT k, s, count(*) OVER (PARTITION BY k) AS nk, count(*) OVER (PARTITION BY s) AS ns FROM a

-- no_partition: incremental
SELECT k, x, rank() OVER (ORDER BY x DESC) AS r FROM a

-- global_total: incremental
SELECT k, p, sum(p) OVER () AS t FROM a

-- named: incremental
SELECT k, sum(x) OVER w AS s, max(x) OVER w AS m FROM a WINDOW w AS (PARTITION BY k)

-- expression_partition: incremental
SELECT x, count(*) OVER (PARTITION BY x % 2) AS n FROM a

-- values: incremental
SELECT k, first_value(x) OVER (PARTITION BY k ORDER BY d, x) AS f, nth_value(x, 2) OVER (PARTITION BY k ORDER BY d, x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n FROM a

-- over_join: incremental
SELECT b.n, a.x, rank() OVER (PARTITION BY b.n ORDER BY a.x) AS r FROM a JOIN b ON a.k = b.k

-- over_left_join: incremental
SELECT b.n, a.x, count(*) OVER (PARTITION BY b.n) AS c FROM a LEFT JOIN b ON a.k = b.k

-- over_group: incremental
SELECT k, sum(x) AS s, rank() OVER (ORDER BY sum(x) DESC) AS r FROM a GROUP BY k

-- over_group_partition: incremental
SELECT k, s, count(*) AS n, sum(count(*)) OVER (PARTITION BY k) AS t FROM a GROUP BY k, s

-- filtered: incremental
SELECT * FROM (SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x DESC, p DESC, s) AS rn FROM a) WHERE rn <= 2

-- qualify: incremental
SELECT k, x FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY x DESC) = 1

-- qualify_alias: incremental
SELECT k, x, dense_rank() OVER (PARTITION BY k ORDER BY x) AS r FROM a QUALIFY r < 2

-- deduplicate: incremental
SELECT k, x, s FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY d DESC, x) AS rn FROM a) WHERE rn = 1

-- then_group: incremental
SELECT r, count(*) AS n FROM (SELECT dense_rank() OVER (PARTITION BY k ORDER BY x) AS r FROM a) GROUP BY r

-- then_join: incremental
SELECT q.k, q.r, b.n FROM (SELECT k, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM a) q JOIN b ON q.k = b.k

-- union_input: incremental
SELECT k, v, count(*) OVER (PARTITION BY k) AS n FROM (SELECT k, x AS v FROM a UNION ALL SELECT k, y FROM b)

-- sessions: incremental
SELECT k, d, sum(new) OVER (PARTITION BY k ORDER BY d, x) AS session FROM (SELECT k, d, x, CASE WHEN datediff(d, lag(d) OVER (PARTITION BY k ORDER BY d, x)) <= 1 THEN 0 ELSE 1 END AS new FROM a)

-- last_value_range: incremental
SELECT k, d, x, last_value(x) OVER (PARTITION BY k ORDER BY d) AS l, last_value(s) OVER (PARTITION BY k ORDER BY d DESC, x DESC) AS m FROM a

-- last_value_filled: incremental
SELECT k, d, coalesce(x, last_value(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY d)) AS x, last(s, true) OVER (PARTITION BY k ORDER BY d RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM a

-- nth_value_range: incremental
SELECT k, nth_value(x, 2) OVER (PARTITION BY k ORDER BY d) AS n, nth_value(x, 2) IGNORE NULLS OVER (PARTITION BY k ORDER BY d DESC) AS m FROM a

-- collect_list_range: incremental
SELECT k, collect_list(x) OVER (PARTITION BY k ORDER BY d) AS l, array_agg(x) OVER (PARTITION BY k ORDER BY d DESC) AS m FROM a

-- last_value_nulls_elsewhere: incremental
SELECT k, last_value(x) OVER (PARTITION BY k ORDER BY d NULLS LAST) AS l FROM a

-- ignore_nulls: incremental
SELECT k, d, first_value(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY d, x) AS f, lag(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY d, x, s) AS l FROM a

-- window_filter: incremental
SELECT k, sum(x) FILTER (WHERE x > 1) OVER (PARTITION BY k) AS f, count(*) FILTER (WHERE s IS NOT NULL) OVER (PARTITION BY k ORDER BY d) AS n FROM a

-- ignore_nulls_of_groups: incremental
SELECT k, last_value(max(x)) IGNORE NULLS OVER (PARTITION BY k ORDER BY d) AS f, sum(sum(x)) OVER (PARTITION BY k) AS n FROM a GROUP BY k, d

-- mixed_directions_in_a_range: incremental
SELECT k, d, x, last_value(x) OVER (PARTITION BY k ORDER BY d DESC, s) AS l, nth_value(x, 2) OVER (PARTITION BY k ORDER BY d DESC, s) AS n, size(collect_list(x) OVER (PARTITION BY k ORDER BY d DESC, s)) AS c, last_value(x, true) OVER (PARTITION BY k ORDER BY d DESC, s RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS w FROM a

-- numbers_around_nulls_last: full, clause
SELECT k, last_value(s) OVER (PARTITION BY k ORDER BY x NULLS LAST RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS l FROM a

-- windows_of_one_name: incremental
SELECT q.k, q.r0, sum(q.x) OVER w AS r FROM (SELECT k, x, rank() OVER w AS r0 FROM a WINDOW w AS (ORDER BY x)) q WINDOW w AS (PARTITION BY q.k)

-- chosen_in_a_frame: incremental
SELECT k, x, max_by(s, x) OVER (PARTITION BY k) AS m, min_by(s, x) FILTER (WHERE x > 0) OVER (PARTITION BY k ORDER BY d) AS n, mode(s) OVER (PARTITION BY k) AS o, collect_set(s) OVER (PARTITION BY k) AS c FROM a

-- texts_joined_in_a_frame: incremental
SELECT k, d, listagg(s, ',') OVER (PARTITION BY k) AS l, string_agg(s, '|') OVER (PARTITION BY k ORDER BY d) AS r, listagg(s, ',') WITHIN GROUP (ORDER BY x DESC) OVER (PARTITION BY k) AS w, max_by(s, x) OVER (PARTITION BY k ORDER BY d ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM a

-- chosen_in_a_frame_of_a_lateral_query: incremental
SELECT b.k, b.n, q.m, q.l FROM b, LATERAL (SELECT a.x, max_by(a.s, a.x) OVER (PARTITION BY a.p) AS m, listagg(a.s, ',') OVER (ORDER BY a.d) AS l FROM a WHERE a.k = b.k) q

-- maps_chosen_in_a_frame: incremental
SELECT k, max_by(map('x', x), d) OVER (PARTITION BY k) AS m, mode(map('x', x)) OVER (PARTITION BY k) AS o FROM a

-- above_average: incremental
SELECT k, x FROM a WHERE x > (SELECT avg(y) FROM b)

-- equal_max: incremental
SELECT k, x FROM a WHERE x = (SELECT max(x) FROM a)

-- latest_day: incremental
SELECT k, d FROM a WHERE d = (SELECT max(d) FROM a)

-- in_select: incremental
SELECT k, (SELECT max(y) FROM b) AS m FROM a

-- correlated_max: incremental
SELECT k, (SELECT max(y) FROM b WHERE b.k = a.k) AS m FROM a

-- correlated_count: incremental
SELECT k, (SELECT count(*) FROM b WHERE b.k = a.k) AS n FROM a

-- correlated_count_plus: incremental
SELECT k, 1 + (SELECT count(b.y) FROM b WHERE b.k = a.k AND b.y > 1) AS n FROM a

-- correlated_where: incremental
SELECT k, x FROM a WHERE x > (SELECT avg(y) FROM b WHERE b.k = a.k)

-- correlated_coalesce: incremental
SELECT k FROM a WHERE x >= coalesce((SELECT sum(y) FROM b WHERE b.k = a.k), 0)

-- correlated_self: incremental
SELECT k, x FROM a WHERE x = (SELECT min(o.x) FROM a o WHERE o.k = a.k)

-- correlated_join: incremental
SELECT k, (SELECT sum(c.z) FROM b JOIN c ON b.y = c.y WHERE b.k = a.k) AS s FROM a

-- correlated_two_keys: incremental
SELECT k, (SELECT count(*) FROM b WHERE b.k = a.k AND b.y = a.x) AS n FROM a

-- nested_scalar: incremental
SELECT k FROM a WHERE x > (SELECT avg(y) FROM b WHERE y < (SELECT max(z) FROM c))

-- having_uncorrelated: incremental
SELECT k, sum(p) AS s FROM a GROUP BY k HAVING sum(p) > (SELECT sum(p) * 0.2 FROM a)

-- having_correlated: incremental
SELECT k, sum(x) AS s FROM a GROUP BY k HAVING sum(x) > (SELECT count(*) FROM b WHERE b.k = a.k)

-- select_over_group: incremental
SELECT k, sum(x) AS s, (SELECT max(y) FROM b) AS m FROM a GROUP BY k

-- sum_of_scalar: incremental
SELECT k, sum(x - (SELECT min(y) FROM b)) AS s FROM a GROUP BY k

-- case_of_scalar: incremental
SELECT CASE WHEN x > (SELECT avg(y) FROM b) THEN 'hi' ELSE 'lo' END AS c, k FROM a

-- scalar_of_group: incremental
SELECT k FROM a WHERE x > (SELECT max(n) FROM (SELECT k, count(*) AS n FROM b GROUP BY k))

-- empty_scalar: incremental
SELECT k, (SELECT max(y) FROM b WHERE y > 100) AS m FROM a

-- in_join_on: incremental
SELECT a.k, b.n FROM a JOIN b ON a.k = b.k AND b.y > (SELECT avg(z) FROM c)

-- in_left_join_on: incremental
SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND b.y > (SELECT avg(z) FROM c)

-- threshold_of_view_total: incremental
WITH t AS (SELECT k, sum(x) AS s FROM a GROUP BY k) SELECT k, s FROM t WHERE s = (SELECT max(s) FROM t)

-- lateral_by_another_column: incremental
SELECT b.n, l.s FROM b, LATERAL (SELECT s FROM a WHERE a.k = b.k ORDER BY x DESC, p LIMIT 2) l
-- lateral_latest: incremental
SELECT b.n, l.x FROM b, LATERAL (SELECT x FROM a WHERE a.k = b.k ORDER BY x DESC LIMIT 1) l

-- lateral_aggregate: incremental
SELECT b.n, l.m, l.c FROM b, LATERAL (SELECT max(x) AS m, count(*) AS c FROM a WHERE a.k = b.k) l

-- lateral_left: incremental
SELECT b.n, l.x FROM b LEFT JOIN LATERAL (SELECT x FROM a WHERE a.k = b.k AND x > 1) l ON true

-- lateral_plain: incremental
SELECT b.n, l.z FROM b, LATERAL (SELECT z FROM c WHERE c.y = b.y) l

-- on_of_a_lateral_join: incremental
WITH c AS (SELECT y, z + 2 AS z FROM c) SELECT a.k, l.y FROM a LEFT JOIN LATERAL (SELECT b.y FROM b WHERE b.k = a.k) l ON l.y > (SELECT min(c.z) FROM c)

-- on_of_a_lateral_join_over_an_outer_alias: incremental
SELECT a.k, l.y FROM a LEFT JOIN LATERAL (SELECT b.y FROM b WHERE b.k = a.k) l ON l.y >= (SELECT max(a.z) - 3 FROM c AS a)

-- outer_columns_in_an_on: incremental
SELECT k, (SELECT count(*) FROM b LEFT JOIN c ON c.z = a.x WHERE b.k = a.k) AS n FROM a

-- nearest_outer_columns_in_an_on: incremental
SELECT a.k FROM a, c m WHERE EXISTS (SELECT 1 FROM b a WHERE a.k = m.y AND EXISTS (SELECT 1 FROM b i LEFT JOIN c ON c.z = a.y WHERE i.k = a.k AND c.y IS NULL))

-- with_of_outer_columns: full, clause
SELECT k, (WITH w AS (SELECT y FROM b WHERE b.k = a.k) SELECT max(y) FROM w) AS m FROM a

-- rollup: incremental
SELECT k, s, sum(x) AS t, count(*) AS n FROM a GROUP BY ROLLUP (k, s)

-- with_rollup: incremental
SELECT k, s, sum(x) AS t FROM a GROUP BY k, s WITH ROLLUP

-- cube: incremental
SELECT k, s, count(*) AS n FROM a GROUP BY CUBE (k, s)

-- sets: incremental
SELECT k, s, sum(p) AS t FROM a GROUP BY GROUPING SETS ((k, s), (k), ())

-- old_sets: incremental
SELECT k, s, sum(p) AS t FROM a GROUP BY k, s GROUPING SETS ((k), (s))

-- partial_rollup: incremental
SELECT k, s, count(*) AS n FROM a GROUP BY k, ROLLUP (s)

-- grouping_flags: incremental
SELECT k, s, grouping(k) AS gk, grouping_id(k, s) AS gi, count(*) AS n FROM a GROUP BY CUBE (k, s)

-- rollup_max: incremental
SELECT k, s, max(x) AS m FROM a GROUP BY ROLLUP (k, s)

-- rollup_having: incremental
SELECT k, sum(x) AS t FROM a GROUP BY ROLLUP (k) HAVING sum(x) > 3

-- rollup_of_argument: incremental
SELECT k, sum(k) AS t FROM a GROUP BY ROLLUP (k)

-- rollup_join: incremental
SELECT b.n, a.s, sum(a.p) AS t FROM a JOIN b ON a.k = b.k GROUP BY ROLLUP (b.n, a.s)

-- the_empty_set: incremental
SELECT count(*) AS n, sum(x) AS t, count(DISTINCT k) AS d, grouping_id() AS g FROM a WHERE x > 99 GROUP BY GROUPING SETS (()) HAVING count(*) < 2 AND grouping_id() = 0

-- the_empty_set_of_few_rows: incremental
SELECT 1 AS one, sum(z) + grouping_id() AS t FROM c WHERE y = 2 GROUP BY GROUPING SETS (())

-- the_empty_set_twice: incremental
SELECT count(*) AS n, grouping_id() AS g FROM a WHERE x > 99 GROUP BY GROUPING SETS ((), ())

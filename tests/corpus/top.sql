-- limit: incremental
SELECT k, x FROM a ORDER BY x DESC, k, s LIMIT 3

-- offset: incremental
SELECT k, x FROM a ORDER BY x, k LIMIT 3 OFFSET 2

-- limit_ties: incremental
SELECT k, x FROM a ORDER BY x LIMIT 4

-- limit_no_order: incremental
SELECT k, x FROM a LIMIT 4

-- hidden_key: incremental
SELECT k FROM b ORDER BY y DESC, n LIMIT 3

-- nulls_last: incremental
SELECT k, x FROM a ORDER BY x DESC NULLS LAST, k LIMIT 5

-- of_group: incremental
SELECT k, sum(p) AS s FROM a GROUP BY k ORDER BY s DESC, k LIMIT 2

-- of_group_hidden: incremental
SELECT k FROM a GROUP BY k ORDER BY max(p) DESC, k LIMIT 2

-- of_join: incremental
SELECT a.k, b.n, a.p FROM a JOIN b ON a.k = b.k ORDER BY a.p DESC, b.n, a.k LIMIT 5

-- of_distinct: incremental
SELECT DISTINCT s FROM a ORDER BY s LIMIT 2

-- of_union: incremental
SELECT k FROM a UNION ALL SELECT y FROM b ORDER BY k LIMIT 6

-- nested: incremental
SELECT q.k, b.n FROM (SELECT k, x FROM a ORDER BY x DESC, k LIMIT 4) q JOIN b ON q.k = b.k

-- of_window: incremental
SELECT k, rank() OVER (ORDER BY x) AS r FROM a ORDER BY r, k LIMIT 3

-- then_group: incremental
SELECT k, count(*) AS n FROM (SELECT k FROM a ORDER BY x, k LIMIT 10) GROUP BY k

-- of_top: incremental
SELECT k FROM (SELECT k, x FROM a ORDER BY x DESC, k LIMIT 6) ORDER BY k LIMIT 2

-- of_view_total: incremental
SELECT count(*) AS n FROM (SELECT k FROM a ORDER BY k LIMIT 5)

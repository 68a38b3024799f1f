-- running_share: incremental
WITH t AS (SELECT k, sum(p) AS s FROM a GROUP BY k) SELECT t.k, try_divide(t.s, sum(t.s) OVER ()) AS share FROM t

-- best_of_each: incremental
SELECT b.n, q.x FROM b LEFT JOIN (SELECT k, x FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY x DESC) = 1) q ON q.k = b.k

-- no_orders: incremental
SELECT b.n, coalesce(g.s, 0) AS s FROM b LEFT JOIN (SELECT k, sum(p) AS s FROM a GROUP BY k) g ON g.k = b.k WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.y = b.y AND c.z > 3)

-- distinct_count_of_exists: incremental
SELECT count(DISTINCT k) AS n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)

-- union_of_outer: incremental
SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k UNION ALL SELECT c.y, NULL FROM c WHERE c.z NOT IN (SELECT k FROM b WHERE k IS NOT NULL)

-- group_of_full: incremental
SELECT coalesce(a.k, b.k) AS k, count(*) AS n, sum(b.y) AS s FROM a FULL JOIN b ON a.k = b.k GROUP BY coalesce(a.k, b.k)

-- window_of_rollup: incremental
SELECT k, s, n, rank() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM (SELECT k, s, count(*) AS n FROM a GROUP BY ROLLUP (k, s))

-- top_of_intersect: incremental
SELECT k FROM (SELECT k FROM a INTERSECT SELECT k FROM b) ORDER BY k DESC LIMIT 2

-- exists_over_group: incremental
SELECT g.k, g.s FROM (SELECT k, sum(x) AS s FROM a GROUP BY k) g WHERE EXISTS (SELECT 1 FROM b WHERE b.k = g.k AND b.y < g.s)

-- left_of_left: incremental
SELECT a.k, q.n, q.z FROM a LEFT JOIN (SELECT b.k, b.n, c.z FROM b LEFT JOIN c ON b.y = c.y) q ON a.k = q.k

-- scd_lookup: incremental
SELECT a.k, a.d, q.n FROM a LEFT JOIN (SELECT k, n, y, lead(y) OVER (PARTITION BY k ORDER BY y, n) AS upto FROM b) q ON a.k = q.k AND a.x >= q.y AND (a.x < q.upto OR q.upto IS NULL)

-- anti_then_window: incremental
SELECT k, x, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM a WHERE k NOT IN (SELECT y FROM c WHERE y IS NOT NULL)

-- deep: incremental
SELECT z, max(n) AS m FROM (SELECT c.z, g.k, count(*) AS n FROM (SELECT DISTINCT k, x FROM a) g JOIN b ON g.k = b.k LEFT JOIN c ON b.y = c.y GROUP BY c.z, g.k) GROUP BY z

-- quotes: incremental
SELECT k, concat(s, 'it''s', "say ""x""", 'a\'b') AS t FROM a WHERE s <> 'x''y'

-- limit_all: incremental
SELECT k, x FROM a LIMIT ALL

-- union_by_expression: incremental
SELECT k AS c FROM a UNION SELECT y FROM b ORDER BY c % 3, c LIMIT 4

-- with_in_exists: incremental
SELECT k FROM a WHERE EXISTS (WITH t AS (SELECT k FROM b WHERE y > 1) SELECT 1 FROM t WHERE t.k = a.k)

-- with_in_both_sides: incremental
SELECT l.k, r.n FROM (WITH t AS (SELECT k, sum(x) AS s FROM a GROUP BY k) SELECT * FROM t WHERE s > 1) l JOIN (WITH t AS (SELECT k, count(*) AS n FROM b GROUP BY k) SELECT * FROM t) r ON l.k = r.k

-- with_unused: incremental
WITH t AS (SELECT k FROM b) SELECT k, x FROM a

-- struct_star: incremental
SELECT k, latest.* FROM (SELECT k, max_by(struct(x, s AS t), d) AS latest FROM a GROUP BY k)

-- struct_star_of_cte: incremental
WITH m AS (SELECT k, struct(x, d) AS v FROM a) SELECT m.v.*, b.* FROM m JOIN b ON b.k = m.k

-- time_window: incremental
SELECT window.start AS w, window.end, k, count(*) AS n FROM a GROUP BY window(CAST(d AS timestamp), '2 days'), k HAVING count(*) > 0 AND window.start IS NOT NULL

-- sliding_window: incremental
SELECT window, sum(x) AS n FROM a GROUP BY window(CAST(d AS timestamp), '2 days', '1 day')

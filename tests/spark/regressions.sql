-- accumulators that were empty at the first build
SELECT DISTINCT k, y FROM b WHERE y NOT IN (SELECT k FROM a)
-- NULLs in a map's values became zeros in Spark's GROUP BY
SELECT q.k, q.x, map('u', q.x, 'n', q.k) AS m, min(q.x) OVER (PARTITION BY q.x ORDER BY q.k ROWS UNBOUNDED PRECEDING) AS w FROM a q
-- a relation that is named but not needed
WITH t AS (SELECT k FROM b) SELECT k, x FROM a
-- arrays in groups of which none changed its row
SELECT DISTINCT p, arr, x FROM a WHERE x > 1
-- first() inside a correlated subquery was left to chance
SELECT a.k, (SELECT first(b.y) FROM b WHERE b.k = a.k) AS f, (SELECT collect_list(b.n) FROM b WHERE b.k = a.k) AS l FROM a
-- an aggregate over a correlated subquery, itself in a correlated subquery: Spark's optimizer leaves an outer reference
SELECT l.k, l.y, (SELECT avg(r.s) FROM (SELECT m.k, (SELECT sum(c.p) FROM c WHERE c.y = m.y) AS s FROM b m) r WHERE r.k = l.k) AS mean FROM b l

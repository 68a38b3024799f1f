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
-- COALESCE of the joined side first was taken for the column that USING makes
SELECT coalesce(b.k, a.k) AS k, a.x FROM a LEFT JOIN b ON a.k = b.k
-- names that are data came in lower case: what UNPIVOT calls its rows, keys of maps, fields of a type
SELECT * FROM (SELECT k, x AS Xx FROM a) UNPIVOT (v FOR n IN (k AS First, Xx))
SELECT k, map('Key', x, 'key', k).Key AS v, q.m.Key AS w FROM (SELECT k, x, map('Key', x) AS m FROM a) q
SELECT to_json(CAST(struct(k) AS STRUCT<Id: INT>)) AS j FROM a
-- PIVOT gives NULL for a count of no rows, but 0 where another aggregate gives a text
SELECT * FROM (SELECT k, x, s FROM a) PIVOT (array_join(sort_array(collect_list(s)), ',') FOR x IN (1, 2))
-- fields of rows were called after columns of ours
SELECT k, to_json((k, count(*))) AS j, to_json(max((x, p))) AS m FROM a GROUP BY k
SELECT to_json((z, y)) AS j FROM (SELECT k + 1 AS z, x AS y FROM a)
-- the first row of a frame that begins with the current row's peers was each peer itself, and NULLs hid peers
SELECT k, x, first_value(x) OVER (ORDER BY k RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS f FROM a
SELECT k, x, first_value(x) IGNORE NULLS OVER (PARTITION BY s ORDER BY k DESC) AS f, any_value(x) OVER (ORDER BY k, s DESC) AS g FROM a
-- a whole number of a derived table was a literal where its column was read: as wide as its digits beside a decimal, a position in ORDER BY
WITH cfg AS (SELECT 3 AS n) SELECT k, CAST(p / cfg.n AS DOUBLE) AS q FROM a, cfg
SELECT a.k, (SELECT q.y FROM (SELECT k, y, n, 1 AS tag FROM b) q WHERE q.k = a.k ORDER BY q.tag, q.n, q.y LIMIT 1) AS v FROM a
-- a cast to a wider decimal was left out over another cast
SELECT CAST(u.p AS STRING) AS s FROM (SELECT CAST(x AS DECIMAL(10,2)) AS p FROM a UNION ALL SELECT CAST(y AS DECIMAL(20,4)) AS p FROM b) u
-- an entry of WITH that is called as the table it reads was read by itself in a subquery beside groups
WITH a AS (SELECT k, x * 3 AS x FROM a) SELECT count(*) AS n, max(y) IN (SELECT x FROM a) AS i FROM b
-- fields of rows that are called after a key, what stands in parentheses, or a parameter of a lambda
SELECT to_json(struct(k, map('u', x)['u'], (s))) AS j, to_json(transform(arr, e -> struct(e, 1))) AS t FROM a
-- a column called like a table of the outer query, or a lambda's variable like a name of ours, took what was meant for that
SELECT st.y FROM b AS st WHERE st.k NOT IN (SELECT x FROM a WHERE x IS NOT NULL)
SELECT b.k, transform(q.l, x -> x.c1 + q.n) AS t FROM b LEFT JOIN (SELECT k, x * 10 AS n, array(named_struct('c1', x)) AS l FROM a) q ON q.k = b.k
-- the values that PIVOT lists were compared as they are, not in their column's type
SELECT * FROM (SELECT k, CAST(x AS STRING) AS t, y FROM a JOIN b USING (k)) PIVOT (sum(y) AS s FOR t IN (1 AS one, 2 AS two))
SELECT * FROM (SELECT k, x, y FROM a JOIN b USING (k)) PIVOT (max(y) AS s FOR (k, x) IN ((1.5, '2') AS one, (2, 1) AS two))
-- operators that Spark binds otherwise than sqlglot hid a grouping key, or a partition's, where it is no operand
SELECT x, k, x | k & 1 AS z, x ^ k | 1 AS w, count(*) AS n FROM a GROUP BY x, k, x | k, k | 1
SELECT k, x | k & 1 AS z, count(*) OVER (PARTITION BY x | k) AS n FROM a
SELECT k + 1 AS u, '1' || k + 1 AS t, c = b IN (true) AS i, count(*) AS n FROM (SELECT k, x > 1 AS b, k > 2 AS c FROM a) GROUP BY k, k + 1, c, b, b IN (true)

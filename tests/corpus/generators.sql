-- lateral_view: incremental
SELECT k, e FROM a LATERAL VIEW explode(arr) t AS e

-- lateral_view_outer: incremental
SELECT k, e FROM a LATERAL VIEW OUTER explode(arr) t AS e

-- posexplode: incremental
SELECT k, i, e FROM a LATERAL VIEW posexplode(arr) t AS i, e

-- two_views: incremental
SELECT k, e, g FROM a LATERAL VIEW explode(arr) t AS e LATERAL VIEW explode(array(e, k)) u AS g

-- select_explode: incremental
SELECT k, explode(arr) AS e FROM a

-- select_explode_outer: incremental
SELECT k, explode_outer(arr) AS e FROM a

-- select_posexplode: incremental
SELECT k, posexplode(arr) AS (i, e) FROM a

-- select_stack: incremental
SELECT k, stack(2, 'x', x, 'k', k) AS (name, value) FROM a

-- lateral_function: incremental
SELECT a.k, t.e FROM a, LATERAL explode(a.arr) AS t(e)

-- lateral_inline: incremental
SELECT k, u, v FROM a LATERAL VIEW inline(array(named_struct('u', k, 'v', x), named_struct('u', x, 'v', k))) t AS u, v

-- sequence: incremental
SELECT k, i FROM b LATERAL VIEW explode(sequence(0, coalesce(y, 0))) t AS i

-- split_words: incremental
SELECT w, count(*) AS n FROM (SELECT explode(split(concat(s, ' ', s), ' ')) AS w FROM a) GROUP BY w

-- explode_join: incremental
SELECT t.e, b.n FROM a JOIN b ON b.k = a.k LATERAL VIEW explode(arr) t AS e

-- explode_then_join: incremental
SELECT q.e, b.n FROM (SELECT explode(arr) AS e FROM a) q JOIN b ON b.k = q.e

-- explode_group: incremental
SELECT e, count(*) AS n, max(k) AS m FROM (SELECT k, explode(arr) AS e FROM a) GROUP BY e

-- explode_left: incremental
SELECT q.e, b.n FROM (SELECT k, explode(arr) AS e FROM a) q LEFT JOIN b ON b.k = q.e

-- pivot: incremental
SELECT * FROM (SELECT k, s, p FROM a) PIVOT (sum(p) FOR s IN ('a' AS fa, 'b' AS fb))

-- pivot_two: incremental
SELECT * FROM (SELECT k, s, p, x FROM a) PIVOT (sum(p) AS sp, max(x) AS mx FOR s IN ('a', 'b'))

-- pivot_count: incremental
SELECT * FROM (SELECT k, x FROM a) PIVOT (count(*) FOR x IN (1 AS one, 2 AS two))

-- unpivot: incremental
SELECT * FROM (SELECT k, y FROM b) UNPIVOT (v FOR c IN (k, y))

-- values_only_join: incremental
SELECT v.n, count(*) AS c FROM a JOIN (VALUES (1, 'one'), (2, 'two')) v(x, n) ON a.x = v.x GROUP BY v.n

-- generator_of_a_subquery: incremental
WITH c AS (SELECT y, z + 100 AS z FROM c) SELECT a.k, t.e FROM a LATERAL VIEW explode(array((SELECT max(c.z) FROM c))) t AS e

-- selected_generator_of_a_subquery: incremental
WITH a AS (SELECT k, x FROM a WHERE x > 2) SELECT b.k, explode((SELECT collect_set(a.x) FROM a)) AS e FROM b

-- selected_posexplode_of_a_subquery: incremental
SELECT a.k, posexplode(array((SELECT max(a.z) FROM c AS a), a.x)) FROM a

-- table_function_of_a_subquery: full, clause
SELECT b.k, t.col FROM b, explode(array((SELECT max(z) FROM c))) t

-- pivot_of_a_subquery: full, clause
SELECT * FROM (SELECT k, x FROM a) PIVOT (max(x + (SELECT max(z) FROM c)) FOR k IN (1, 2))

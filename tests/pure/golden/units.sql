-- a filter is one branch
SELECT a + 1 AS x FROM r WHERE a > 1 AND b IS NOT NULL;
SELECT `r`.`a` + 1 AS `x`
FROM `r` AS `r`
WHERE (`r`.`a` > 1) AND (NOT `r`.`b` IS NULL);

-- derived tables are merged into one product
SELECT x.y, s.c FROM (SELECT a + 1 AS y, b FROM r WHERE a < 3) AS x JOIN s ON x.b = s.b;
SELECT (`r_2`.`a` + 1) AS `y`, `s`.`c` AS `c`
FROM `r` AS `r_2`, `s` AS `s`
WHERE (`r_2`.`a` < 3) AND (`r_2`.`b` = `s`.`b`);

-- UNION ALL below a join multiplies out
SELECT u.x, t.d FROM (SELECT a AS x FROM r UNION ALL SELECT b FROM s) AS u JOIN t ON u.x = t.c;
SELECT `r_2`.`a` AS `x`, `t`.`d` AS `d`
FROM `r` AS `r_2`, `t` AS `t`
WHERE (`r_2`.`a` = `t`.`c`)
UNION ALL
SELECT `s_2_2`.`b` AS `x`, `t_2`.`d` AS `d`
FROM `s` AS `s_2_2`, `t` AS `t_2`
WHERE (`s_2_2`.`b` = `t_2`.`c`);

-- a grouping is fused with its select list
SELECT b, sum(a) + 1 AS s FROM r GROUP BY b HAVING count(*) > 1;
SELECT `__ivm_group`.`b` AS `b`, `__ivm_group`.`agg_1` + 1 AS `s`
FROM (SELECT `b`, SUM(`arg_1`) AS `agg_1`, COUNT(*) AS `agg_2`
FROM (SELECT `r`.`b` AS `b`, `r`.`a` AS `arg_1`
FROM `r` AS `r`) AS `__ivm_core`
GROUP BY `b`) AS `__ivm_group`
WHERE (`__ivm_group`.`agg_2` > 1);

-- a grouping whose key is not selected is a unit of its own if it isn't linear
SELECT max(a) AS m FROM r GROUP BY b;
WITH v__1 AS (
SELECT `__ivm_group`.`b` AS `b`, `__ivm_group`.`agg_1` AS `agg_1`
FROM (SELECT `b`, MAX(`arg_1`) AS `agg_1`
FROM (SELECT `r`.`b` AS `b`, `r`.`a` AS `arg_1`
FROM `r` AS `r`) AS `__ivm_core`
GROUP BY `b`) AS `__ivm_group`
)
SELECT `v__1`.`agg_1` AS `m`
FROM `v__1` AS `v__1`;

-- DISTINCT is a grouping by all columns
SELECT DISTINCT a FROM r;
SELECT `__ivm_group`.`c0` AS `a`
FROM (SELECT `c0`
FROM (SELECT `r`.`a` AS `c0`
FROM `r` AS `r`) AS `__ivm_core`
GROUP BY `c0`) AS `__ivm_group`;

-- EXCEPT counts both sides
SELECT a FROM r EXCEPT SELECT c FROM t;
SELECT `__ivm_group`.`c0` AS `a`
FROM (SELECT `c0`, COUNT(`arg_1`) AS `agg_1`, COUNT(`arg_2`) AS `agg_2`
FROM (SELECT `r`.`a` AS `c0`, (CAST(1 AS INT)) AS `arg_1`, (CAST(NULL AS INT)) AS `arg_2`
FROM `r` AS `r`
UNION ALL
SELECT `t`.`c` AS `c0`, (CAST(NULL AS INT)) AS `arg_1`, (CAST(1 AS INT)) AS `arg_2`
FROM `t` AS `t`) AS `__ivm_core`
GROUP BY `c0`) AS `__ivm_group`
WHERE (`__ivm_group`.`agg_1` > 0) AND (`__ivm_group`.`agg_2` = 0);

-- INTERSECT wants a row on both sides
SELECT a FROM r INTERSECT SELECT c FROM t;
SELECT `__ivm_group`.`c0` AS `a`
FROM (SELECT `c0`, COUNT(`arg_1`) AS `agg_1`, COUNT(`arg_2`) AS `agg_2`
FROM (SELECT `r`.`a` AS `c0`, (CAST(1 AS INT)) AS `arg_1`, (CAST(NULL AS INT)) AS `arg_2`
FROM `r` AS `r`
UNION ALL
SELECT `t`.`c` AS `c0`, (CAST(NULL AS INT)) AS `arg_1`, (CAST(1 AS INT)) AS `arg_2`
FROM `t` AS `t`) AS `__ivm_core`
GROUP BY `c0`) AS `__ivm_group`
WHERE (`__ivm_group`.`agg_1` > 0) AND (`__ivm_group`.`agg_2` > 0);

-- of a LEFT JOIN whose calls leave NULLs out, the partners and the left rows apart
SELECT r.b, count(t.d) AS n, sum(t.d * 2) AS s FROM r LEFT JOIN t ON r.a = t.c AND t.d > 1 GROUP BY r.b;
SELECT `__ivm_group`.`b` AS `b`, `__ivm_group`.`agg_1` AS `n`, `__ivm_group`.`agg_2` AS `s`
FROM (SELECT `b`, COUNT(`arg_1`) AS `agg_1`, SUM(`arg_2`) AS `agg_2`
FROM (SELECT `r`.`b` AS `b`, `t`.`d` AS `arg_1`, `t`.`d` * 2 AS `arg_2`
FROM `r` AS `r`, `t` AS `t`
WHERE (`r`.`a` = `t`.`c`) AND (`t`.`d` > 1)
UNION ALL
SELECT `r`.`b` AS `b`, CAST(NULL AS INT) AS `arg_1`, CAST(NULL AS INT) AS `arg_2`
FROM `r` AS `r`) AS `__ivm_core`
GROUP BY `b`) AS `__ivm_group`;

-- what counts rows, or makes something of a missing partner, needs the padded rows
SELECT r.b, count(t.d) AS n, count(*) AS m FROM r LEFT JOIN t ON r.a = t.c GROUP BY r.b;
SELECT `__ivm_group`.`b` AS `b`, `__ivm_group`.`agg_1` AS `n`, `__ivm_group`.`agg_2` AS `m`
FROM (SELECT `b`, COUNT(`arg_1`) AS `agg_1`, COUNT(*) AS `agg_2`
FROM (SELECT `r`.`b` AS `b`, `t`.`d` AS `arg_1`
FROM `r` AS `r`
LEFT JOIN `t` AS `t` ON `r`.`a` = `t`.`c`) AS `__ivm_core`
GROUP BY `b`) AS `__ivm_group`;

-- a FULL JOIN is a LEFT JOIN and the right side's lone rows
SELECT r.a, s.c FROM r FULL JOIN s ON r.b = s.b;
SELECT `r`.`a` AS `a`, `s`.`c` AS `c`
FROM `r` AS `r`
LEFT JOIN `s` AS `s` ON `r`.`b` = `s`.`b`
UNION ALL
SELECT (CAST(NULL AS INT)) AS `a`, `s_2`.`c` AS `c`
FROM `s` AS `s_2`
WHERE (NOT EXISTS(SELECT 1 AS one FROM `r` AS `r_2` WHERE (`r_2`.`b` = `s_2`.`b`)));

-- NOT IN asks for NULLs on both sides
SELECT a FROM r WHERE b NOT IN (SELECT b FROM s);
WITH v__2 AS (
SELECT `__ivm_group`.`agg_1` > 0 AS `c0`, `__ivm_group`.`agg_1` > `__ivm_group`.`agg_2` AS `c1`
FROM (SELECT COUNT(*) AS `agg_1`, COUNT(`arg_1`) AS `agg_2`
FROM (SELECT `s`.`b` AS `arg_1`
FROM `s` AS `s`) AS `__ivm_core`) AS `__ivm_group`
)
SELECT `r`.`a` AS `a`
FROM `r` AS `r`, `v__2` AS `v__2`
WHERE ((NOT `v__2`.`c0` OR (NOT `v__2`.`c1` AND NOT (`r`.`b`) IS NULL AND NOT EXISTS(SELECT 1 AS one FROM `s` AS `s_2_2` WHERE ((`s_2_2`.`b`) = (`r`.`b`))))));

-- a scalar subquery is a unit of one row
SELECT a FROM r WHERE a > (SELECT min(c) FROM s);
WITH v__1 AS (
SELECT `__ivm_group`.`agg_1` AS `agg_1`
FROM (SELECT MIN(`arg_1`) AS `agg_1`
FROM (SELECT `s`.`c` AS `arg_1`
FROM `s` AS `s`) AS `__ivm_core`) AS `__ivm_group`
)
SELECT `r`.`a` AS `a`
FROM `r` AS `r`, `v__1` AS `v__1`
WHERE (`r`.`a` > (`v__1`.`agg_1`));

-- a correlated subquery stays where it is
SELECT a, (SELECT max(c) FROM s WHERE s.b = r.b) AS m FROM r;
SELECT `r`.`a` AS `a`, (SELECT MAX(`s`.`c`) AS `_col_0` FROM `s` AS `s` WHERE (`s`.`b` = `r`.`b`)) AS `m`
FROM `r` AS `r`;

-- windows are a unit by partition
SELECT a, rank() OVER (PARTITION BY b ORDER BY a) AS k FROM r;
WITH v__1 AS (
SELECT `__ivm_group`.`c0` AS `c0`, `__ivm_group`.`c1` AS `c1`, `__ivm_group`.`win_1` AS `win_1`
FROM (SELECT *, RANK() OVER (PARTITION BY `c0` ORDER BY `c1`) AS `win_1`
FROM (SELECT `r`.`b` AS `c0`, `r`.`a` AS `c1`
FROM `r` AS `r`) AS `__ivm_core`) AS `__ivm_group`
)
SELECT `v__1`.`c1` AS `a`, `v__1`.`win_1` AS `k`
FROM `v__1` AS `v__1`;

-- ties of ROWS frames are broken by all columns
SELECT a, b, sum(a) OVER (PARTITION BY b ORDER BY a ROWS UNBOUNDED PRECEDING) AS s FROM r;
SELECT `__ivm_group`.`c1` AS `a`, `__ivm_group`.`c0` AS `b`, `__ivm_group`.`win_1` AS `s`
FROM (SELECT *, SUM(`c1`) OVER (PARTITION BY `c0` ORDER BY `c1`, `c0` NULLS LAST, `c1` NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `win_1`
FROM (SELECT `r`.`b` AS `c0`, `r`.`a` AS `c1`
FROM `r` AS `r`) AS `__ivm_core`) AS `__ivm_group`;

-- ORDER BY ... LIMIT is a unit, its ties broken by all columns
SELECT a, b FROM r ORDER BY b LIMIT 2;
SELECT `__ivm_group`.`c0` AS `a`, `__ivm_group`.`c1` AS `b`
FROM (SELECT *
FROM (SELECT `r`.`a` AS `c0`, `r`.`b` AS `c1`
FROM `r` AS `r`) AS `__ivm_core`
ORDER BY `c1`, `c0`
LIMIT 2) AS `__ivm_group`;

-- grouping sets are branches
SELECT a, b, count(*) AS n FROM r GROUP BY ROLLUP (a, b);
SELECT `__ivm_group`.`a` AS `a`, `__ivm_group`.`b` AS `b`, `__ivm_group`.`agg_1` AS `n`
FROM (SELECT `a`, `b`, `__ivm_set`, COUNT(*) AS `agg_1`
FROM (SELECT `r`.`a` AS `a`, `r`.`b` AS `b`, 0 AS `__ivm_set`
FROM `r` AS `r`
UNION ALL
SELECT `r`.`a` AS `a`, CAST(NULL AS INT) AS `b`, 1 AS `__ivm_set`
FROM `r` AS `r`
UNION ALL
SELECT CAST(NULL AS INT) AS `a`, CAST(NULL AS INT) AS `b`, 2 AS `__ivm_set`
FROM `r` AS `r`) AS `__ivm_core`
GROUP BY `a`, `b`, `__ivm_set`) AS `__ivm_group`;

-- a recursion reads itself
WITH RECURSIVE p (a, b) AS (SELECT src, dst FROM e UNION ALL SELECT p.a, e.dst FROM p JOIN e ON e.src = p.b) SELECT a, b FROM p;
WITH RECURSIVE v__1(`c0`, `c1`) AS (
(SELECT `e`.`src` AS `c0`, `e`.`dst` AS `c1`
FROM `e` AS `e`)
UNION ALL
(SELECT `v__1_2`.`c0` AS `c0`, `e_2`.`dst` AS `c1`
FROM `v__1` AS `v__1_2`, `e` AS `e_2`
WHERE (`e_2`.`src` = `v__1_2`.`c1`))
)
SELECT `v__1_3_2`.`c0` AS `a`, `v__1_3_2`.`c1` AS `b`
FROM `v__1` AS `v__1_3_2`;

-- a recursion of sets has ranks
WITH RECURSIVE p (a, b) AS (SELECT src, dst FROM e UNION SELECT p.a, e.dst FROM p JOIN e ON e.src = p.b) SELECT a, b FROM p;
WITH RECURSIVE v__1_all(`c0`, `c1`, `__ivm_rank`) AS (
(SELECT `e`.`src` AS `c0`, `e`.`dst` AS `c1`, CAST(-1 + 1 AS INT) AS `__ivm_rank`
FROM `e` AS `e`)
UNION
(SELECT `v__1_2`.`c0` AS `c0`, `e_2`.`dst` AS `c1`, CAST(`v__1_2`.`__ivm_rank` + 1 AS INT) AS `__ivm_rank`
FROM `v__1_all` AS `v__1_2`, `e` AS `e_2`
WHERE (`e_2`.`src` = `v__1_2`.`c1`))
), v__1 AS (
SELECT `c0`, `c1`, MIN(`__ivm_rank`) AS `__ivm_rank` FROM v__1_all GROUP BY `c0`, `c1`
)
SELECT `v__1_3_2`.`c0` AS `a`, `v__1_3_2`.`c1` AS `b`
FROM `v__1` AS `v__1_3_2`;

-- different values are counted in rows that are there once each
SELECT b, count(DISTINCT a) AS n FROM r GROUP BY b HAVING count(DISTINCT a) > 1;
WITH v__1 AS (
SELECT `__ivm_group`.`c0` AS `c0`, `__ivm_group`.`c1` AS `c1`
FROM (SELECT `c0`, `c1`
FROM (SELECT `r`.`b` AS `c0`, `r`.`a` AS `c1`
FROM `r` AS `r`) AS `__ivm_core`
GROUP BY `c0`, `c1`) AS `__ivm_group`
)
SELECT `__ivm_group`.`b` AS `b`, `__ivm_group`.`agg_1` AS `n`
FROM (SELECT `b`, COUNT(`arg_1`) AS `agg_1`
FROM (SELECT `v__1`.`c0` AS `b`, `v__1`.`c1` AS `arg_1`
FROM `v__1` AS `v__1`) AS `__ivm_core`
GROUP BY `b`) AS `__ivm_group`
WHERE (`__ivm_group`.`agg_1` > 1);

-- beside another call they are counted by the group's rows
SELECT b, count(DISTINCT a) AS n, sum(a) AS s FROM r GROUP BY b;
SELECT `__ivm_group`.`b` AS `b`, `__ivm_group`.`agg_1` AS `n`, `__ivm_group`.`agg_2` AS `s`
FROM (SELECT `b`, COUNT(DISTINCT `arg_1`) AS `agg_1`, SUM(`arg_1`) AS `agg_2`
FROM (SELECT `r`.`b` AS `b`, `r`.`a` AS `arg_1`
FROM `r` AS `r`) AS `__ivm_core`
GROUP BY `b`) AS `__ivm_group`;

-- of what holds as of a day a unit is kept, so they are counted by its rows
SELECT k, count(DISTINCT x) AS n FROM d GROUP BY k;
SELECT `__ivm_group`.`k` AS `k`, `__ivm_group`.`agg_1` AS `n`
FROM (SELECT `k`, COUNT(DISTINCT `arg_1`) AS `agg_1`
FROM (SELECT `d`.`k` AS `k`, `d`.`x` AS `arg_1`
FROM `d` AS `d`) AS `__ivm_core`
GROUP BY `k`) AS `__ivm_group`;

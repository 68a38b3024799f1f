-- entries that read each other become one recursion of tagged rows
-- same as: WITH RECURSIVE p (a) AS (SELECT src FROM e UNION SELECT e.dst FROM p JOIN e ON e.src = p.a WHERE p.a > 0) SELECT a FROM p
WITH RECURSIVE p (a) AS (SELECT src FROM e UNION SELECT e.dst FROM q JOIN e ON e.src = q.b), q (b) AS (SELECT a FROM p WHERE a > 0) SELECT a FROM p;
WITH RECURSIVE `__ivm_recursion_0` AS (SELECT 0 AS `__ivm_entry`, q.`c0_0`, CAST(NULL AS int) AS `c1_0` FROM (
SELECT src FROM e 
) AS q(`c0_0`) UNION (SELECT 0 AS `__ivm_entry`, q.`c0_0`, CAST(NULL AS int) AS `c1_0` FROM (
 SELECT e.dst FROM (SELECT `c1_0` AS `b` FROM `__ivm_recursion_0` WHERE `__ivm_entry` = 1) AS `q` JOIN e ON e.src = q.b
) AS q(`c0_0`) UNION SELECT 1 AS `__ivm_entry`, CAST(NULL AS int) AS `c0_0`, q.`c1_0` FROM (
SELECT a FROM (SELECT `c0_0` AS `a` FROM `__ivm_recursion_0` WHERE `__ivm_entry` = 0) AS `p` WHERE a > 0
) AS q(`c1_0`))), `p` AS (SELECT `c0_0` AS `a` FROM `__ivm_recursion_0` WHERE `__ivm_entry` = 0), `q` AS (SELECT `c1_0` AS `b` FROM `__ivm_recursion_0` WHERE `__ivm_entry` = 1)
SELECT a FROM p;

-- a recursion of one entry stays
WITH RECURSIVE p (a) AS (SELECT src FROM e UNION SELECT e.dst FROM p JOIN e ON e.src = p.a) SELECT a FROM p;
WITH RECURSIVE p (a) AS (SELECT src FROM e UNION SELECT e.dst FROM p JOIN e ON e.src = p.a) SELECT a FROM p;

-- tables of a plain WITH stay
WITH x AS (SELECT a FROM r) SELECT a FROM x;
WITH x AS (SELECT a FROM r) SELECT a FROM x;

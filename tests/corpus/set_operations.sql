-- union_all: incremental
SELECT k FROM a UNION ALL SELECT y FROM b

-- union_all_types: incremental
SELECT k, p FROM a UNION ALL SELECT y, CAST(z AS decimal(12,4)) FROM c

-- union_distinct: incremental
SELECT k FROM a UNION SELECT k FROM b

-- union_three: incremental
SELECT k FROM a UNION SELECT k FROM b UNION ALL SELECT y FROM c

-- union_constant: incremental
SELECT k FROM b UNION ALL SELECT 7

-- union_same: incremental
SELECT k FROM a UNION ALL SELECT k FROM a WHERE x > 1

-- intersect: incremental
SELECT k FROM a INTERSECT SELECT k FROM b

-- intersect_all: incremental
SELECT k FROM a INTERSECT ALL SELECT k FROM b

-- except: incremental
SELECT k FROM a EXCEPT SELECT k FROM b

-- except_all: incremental
SELECT k FROM a EXCEPT ALL SELECT k FROM b

-- minus_two: incremental
SELECT k, x FROM a MINUS SELECT k, y FROM b

-- except_nulls: incremental
SELECT x FROM a EXCEPT SELECT y FROM b

-- nested: incremental
(SELECT k FROM a EXCEPT SELECT k FROM b) UNION ALL SELECT y FROM c

-- of_groups: incremental
SELECT k, count(*) AS n FROM a GROUP BY k EXCEPT SELECT k, count(*) AS n FROM b GROUP BY k

-- then_group: incremental
SELECT k, count(*) AS n FROM (SELECT k FROM a UNION SELECT y FROM b) GROUP BY k % 2, k

-- then_join: incremental
SELECT q.k, b.n FROM (SELECT k FROM a INTERSECT SELECT y FROM c) q JOIN b ON q.k = b.k

-- limit_by_a_subquery: full, clause
SELECT k FROM a UNION ALL SELECT k FROM b ORDER BY k > (SELECT min(z) FROM c), k NULLS LAST LIMIT 3

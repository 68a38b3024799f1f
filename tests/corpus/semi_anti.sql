-- left_semi: incremental
SELECT a.k, a.x FROM a LEFT SEMI JOIN b ON a.k = b.k

-- left_anti: incremental
SELECT a.k, a.x FROM a LEFT ANTI JOIN b ON a.k = b.k

-- semi_residual: incremental
SELECT a.k FROM a LEFT SEMI JOIN b ON a.k = b.k AND b.y > a.x

-- anti_residual: incremental
SELECT a.k, a.x FROM a LEFT ANTI JOIN b ON a.k = b.k AND b.y <= a.x

-- anti_of_derived: incremental
SELECT a.k FROM a LEFT ANTI JOIN (SELECT b.k FROM b JOIN c ON b.y = c.y) q ON a.k = q.k

-- exists: incremental
SELECT k, x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)

-- exists_more: incremental
SELECT k, x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y <> a.x)

-- exists_same_table: incremental
SELECT k, x FROM a WHERE EXISTS (SELECT 1 FROM a o WHERE o.k = a.k AND o.x > a.x)

-- exists_join: incremental
SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b JOIN c ON b.y = c.y WHERE b.k = a.k)

-- exists_nested: incremental
SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND EXISTS (SELECT 1 FROM c WHERE c.y = b.y))

-- exists_not_nested: incremental
SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND NOT EXISTS (SELECT 1 FROM c WHERE c.y = b.y AND c.z > b.k))

-- exists_or: incremental
SELECT k FROM a WHERE x = 1 OR EXISTS (SELECT 1 FROM b WHERE b.k = a.k)

-- exists_two: incremental
SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k) AND NOT EXISTS (SELECT 1 FROM c WHERE c.y = a.x)

-- exists_value: incremental
SELECT k, EXISTS (SELECT 1 FROM b WHERE b.k = a.k) AS e FROM a

-- exists_case: incremental
SELECT k, CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.k = a.k) THEN 'yes' ELSE 'no' END AS e FROM a

-- exists_group: incremental
SELECT k FROM a WHERE EXISTS (SELECT b.k FROM b WHERE b.k = a.k GROUP BY b.k HAVING count(*) > 1)

-- exists_uncorrelated: incremental
SELECT k FROM a WHERE EXISTS (SELECT 1 FROM c WHERE z > 3)

-- not_exists: incremental
SELECT k, x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)

-- not_exists_inequality: incremental
SELECT k, x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.y > a.x)

-- double_not_exists: incremental
SELECT n FROM b WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.y = b.y AND NOT EXISTS (SELECT 1 FROM a WHERE a.x = c.z))

-- in: incremental
SELECT k, x FROM a WHERE k IN (SELECT k FROM b)

-- in_filtered: incremental
SELECT k, x FROM a WHERE k IN (SELECT k FROM b WHERE y > 1)

-- in_correlated: incremental
SELECT k, x FROM a WHERE x IN (SELECT y FROM b WHERE b.k = a.k)

-- in_pair: incremental
SELECT k FROM a WHERE (k, x) IN (SELECT k, y FROM b)

-- in_group: incremental
SELECT k, x FROM a WHERE k IN (SELECT k FROM b GROUP BY k HAVING count(*) > 1)

-- in_union: incremental
SELECT k FROM a WHERE k IN (SELECT k FROM b UNION ALL SELECT y FROM c)

-- in_join: incremental
SELECT k FROM a WHERE k IN (SELECT b.k FROM b JOIN c ON b.y = c.y WHERE c.z > a.x)

-- in_distinct: incremental
SELECT k FROM a WHERE k IN (SELECT DISTINCT y FROM c)

-- in_or: incremental
SELECT k FROM a WHERE x = 2 OR k IN (SELECT k FROM b WHERE y = 1)

-- in_value: incremental
SELECT k, k IN (SELECT k FROM b) AS e FROM a

-- not_in: incremental
SELECT k, x FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)

-- not_in_nulls: incremental
SELECT k, x FROM a WHERE x NOT IN (SELECT y FROM b)

-- not_in_correlated: incremental
SELECT k, x FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.k = a.k)

-- not_in_expression: incremental
SELECT k FROM a WHERE k + 1 NOT IN (SELECT y FROM b WHERE y > 1)

-- not_in_value: incremental
SELECT k, x NOT IN (SELECT y FROM b) AS e FROM a

-- exists_in_join_on: incremental
SELECT a.k, b.n FROM a JOIN b ON a.k = b.k AND EXISTS (SELECT 1 FROM c WHERE c.y = b.y)

-- exists_then_sum: incremental
SELECT k, sum(p) AS s FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k) GROUP BY k

-- exists_then_max: incremental
SELECT k, max(p) AS s FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > a.x) GROUP BY k

-- left_join: incremental
SELECT a.k, a.x, b.n FROM a LEFT JOIN b ON a.k = b.k

-- left_chain: incremental
SELECT a.k, b.n, c.z FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.y = c.y

-- left_star: incremental
SELECT a.k, b.n, c.z FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON a.x = c.y

-- left_residual: incremental
SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND b.y > a.x

-- left_own_condition: incremental
SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND a.x = 1

-- left_right_condition: incremental
SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND b.n <> 'a'

-- left_inequality: incremental
SELECT b.k, c.z FROM b LEFT JOIN c ON b.y < c.y

-- left_on_true: incremental
SELECT b.k, c.z FROM b LEFT JOIN c ON true

-- left_null_safe: incremental
SELECT a.k, b.n FROM a LEFT JOIN b ON a.k <=> b.k

-- left_is_null: incremental
SELECT a.k, a.x FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL

-- left_filtered: incremental
SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k WHERE a.x > 1 AND coalesce(b.y, 0) < 3

-- left_derived: incremental
SELECT a.k, q.one FROM a LEFT JOIN (SELECT k, 1 AS one FROM b WHERE y > 1) q ON a.k = q.k

-- left_derived_join: incremental
SELECT a.k, q.z FROM a LEFT JOIN (SELECT b.k, c.z FROM b JOIN c ON b.y = c.y) q ON a.k = q.k

-- left_parentheses: incremental
SELECT a.k, c.z FROM a LEFT JOIN (b JOIN c ON b.y = c.y) ON a.k = b.k

-- left_union: incremental
SELECT a.k, q.v FROM a LEFT JOIN (SELECT k, y AS v FROM b UNION ALL SELECT y, z FROM c) q ON a.k = q.k

-- left_group: incremental
SELECT a.k, q.m FROM a LEFT JOIN (SELECT k, max(y) AS m, count(*) AS n FROM b GROUP BY k) q ON a.k = q.k

-- left_then_inner: incremental
SELECT a.k, b.n, c.z FROM a LEFT JOIN b ON a.k = b.k JOIN c ON a.x = c.y

-- left_then_inner_on_padded: incremental
SELECT a.k, b.n, c.z FROM a LEFT JOIN b ON a.k = b.k JOIN c ON b.y = c.y

-- inner_then_left: incremental
SELECT a.k, b.n, c.z FROM a JOIN b ON a.k = b.k LEFT JOIN c ON b.y = c.y AND c.z > a.x

-- left_self: incremental
SELECT l.k, r.x FROM a l LEFT JOIN a r ON l.k = r.x

-- left_union_left: incremental
SELECT u.k, b.n FROM (SELECT k FROM a UNION ALL SELECT y FROM c) u LEFT JOIN b ON u.k = b.k

-- left_using: incremental
SELECT k, x, n FROM a LEFT JOIN b USING (k)

-- right_join: incremental
SELECT a.x, b.k, b.n FROM a RIGHT JOIN b ON a.k = b.k

-- right_residual: incremental
SELECT a.x, b.n FROM a RIGHT JOIN b ON a.k = b.k AND a.x > 1

-- right_chain: incremental
SELECT a.x, b.n, c.z FROM a JOIN b ON a.k = b.k RIGHT JOIN c ON b.y = c.y

-- right_using: incremental
SELECT k, x, n FROM a RIGHT JOIN b USING (k)

-- full_join: incremental
SELECT a.k AS ak, a.x, b.k AS bk, b.n FROM a FULL JOIN b ON a.k = b.k

-- full_residual: incremental
SELECT a.k AS ak, b.k AS bk FROM a FULL JOIN b ON a.k = b.k AND a.x < b.y

-- full_using: incremental
SELECT k, x, n FROM a FULL JOIN b USING (k)

-- full_filtered: incremental
SELECT a.x, b.n FROM a FULL JOIN b ON a.k = b.k WHERE a.k IS NULL OR b.k IS NULL

-- full_chain: incremental
SELECT a.x, b.n, c.z FROM a FULL JOIN b ON a.k = b.k FULL JOIN c ON b.y = c.y

-- full_of_groups: incremental
SELECT l.k AS lk, r.k AS rk, l.s, r.m FROM (SELECT k, sum(x) AS s FROM a GROUP BY k) l FULL JOIN (SELECT k, max(y) AS m FROM b GROUP BY k) r ON l.k = r.k

-- outer_count: incremental
SELECT a.k, count(b.y) AS n, count(*) AS c FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k

-- outer_group_padded: incremental
SELECT b.n, sum(a.x) AS s, count(*) AS c FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.n

-- outer_max_padded: incremental
SELECT b.n, max(a.x) AS m FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.n

-- using_after_full: incremental
SELECT k, a.x, b.y, q.n FROM a FULL JOIN b USING (k) FULL JOIN (SELECT k, max(n) AS n FROM b GROUP BY k) q USING (k)

-- using_after_right: incremental
SELECT k, q.x, b.y, r.n FROM (SELECT k + 2 AS k, x FROM a) q RIGHT JOIN b USING (k) JOIN (SELECT k, max(n) AS n FROM b GROUP BY k) r USING (k)

-- natural_full_twice: incremental
SELECT * FROM (SELECT k + 2 AS k, x FROM a) q NATURAL FULL JOIN b NATURAL FULL JOIN (SELECT y, z FROM c) r

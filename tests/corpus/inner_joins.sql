-- on_key: incremental
SELECT a.k, b.n FROM a JOIN b ON a.k = b.k

-- using_key: incremental
SELECT k, x, n FROM a JOIN b USING (k)

-- natural: incremental
SELECT k, x, n FROM a NATURAL JOIN b

-- commas: incremental
SELECT a.x, b.n, c.z FROM a, b, c WHERE a.k = b.k AND b.y = c.y

-- self: incremental
SELECT l.k, r.x FROM a l JOIN a r ON l.k = r.x

-- three_self: incremental
SELECT l.k FROM b l, b m, b r WHERE l.k = m.y AND m.k = r.y

-- cross_join: incremental
SELECT b.n, c.z FROM b CROSS JOIN c

-- inequality: incremental
SELECT a.k, b.y FROM a JOIN b ON a.x < b.y

-- range_join: incremental
SELECT a.k, b.n FROM a JOIN b ON a.x BETWEEN b.k AND b.y

-- band: incremental
SELECT a.k, c.z FROM a JOIN c ON a.x >= c.y AND a.x < c.z

-- null_safe: incremental
SELECT a.k, b.y FROM a JOIN b ON a.x <=> b.y

-- null_safe_pair: incremental
SELECT a.k, b.n FROM a JOIN b ON a.x <=> b.y AND a.k = b.k

-- or_condition: incremental
SELECT a.k, b.n FROM a JOIN b ON (a.k = b.k AND b.y = 1) OR (a.k = b.k AND a.x = 2)

-- expression_key: incremental
SELECT a.k, b.n FROM a JOIN b ON a.k + 1 = b.y

-- mixed_types: incremental
SELECT a.k, c.z FROM a JOIN c ON a.p = c.p

-- derived_sides: incremental
SELECT l.k, r.n FROM (SELECT k FROM a WHERE x = 1) l JOIN (SELECT k, n FROM b WHERE y > 0) r ON l.k = r.k

-- union_side: incremental
SELECT u.k, c.z FROM (SELECT k FROM a UNION ALL SELECT y FROM b) u JOIN c ON u.k = c.y

-- join_values: incremental
SELECT a.k, v.w FROM a JOIN VALUES (1, 'one'), (2, 'two') AS v(k, w) ON a.k = v.k

-- parentheses: incremental
SELECT a.k, c.z FROM a JOIN (b JOIN c ON b.y = c.y) ON a.k = b.k

-- four_way: incremental
SELECT a.k, c1.z AS z1, c2.z AS z2 FROM a JOIN b ON a.k = b.k JOIN c c1 ON b.y = c1.y JOIN c c2 ON a.x = c2.y

-- on_true: incremental
SELECT b.k, c.y FROM b JOIN c ON true

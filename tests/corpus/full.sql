-- today: full, nondeterministic
SELECT k, current_date() AS t FROM a

-- now_filter: full, nondeterministic
SELECT k FROM a WHERE d < now() OR k = 1

-- random: full, nondeterministic
SELECT k, rand() AS r FROM a

-- ids: full, nondeterministic
SELECT uuid() AS id, k FROM b

-- numbered: full, nondeterministic
SELECT monotonically_increasing_id() AS i, k FROM b

-- sample: full, nondeterministic
SELECT k FROM a TABLESAMPLE (50 PERCENT)

-- constant: full, no_source
SELECT 1 AS one

-- recursive: incremental
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT b.k, n.i FROM b JOIN n ON b.y = n.i

-- all_past: incremental
SELECT k, d FROM a WHERE d < now() - INTERVAL 7 DAYS

-- sums: incremental
SELECT k, sum(x) AS s, count(*) AS n FROM a WHERE date_sub(current_date(), 7) > d GROUP BY k

-- none_yet: incremental
SELECT k, max(x) AS m FROM a WHERE d >= current_date GROUP BY k

-- between: incremental
SELECT a.k, b.n FROM a JOIN b ON b.k = a.k WHERE a.d BETWEEN add_months(current_date(), -1200) AND current_date()

-- today: incremental
SELECT * FROM a WHERE d = curdate()

-- in_a_cte: incremental
WITH past AS (SELECT * FROM a WHERE CAST(now() AS DATE) > d) SELECT s, sum(f) AS f FROM past GROUP BY s HAVING count(*) > 1

-- in_a_subquery: incremental
SELECT b.k, b.y FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND a.d < current_timestamp())

-- padded: incremental
SELECT b.k, p.d FROM b LEFT JOIN (SELECT * FROM a WHERE d < localtimestamp()) p ON p.k = b.k AND p.x = b.y

-- seconds: incremental
SELECT k FROM a WHERE x < unix_timestamp() - 3600

-- branches: incremental
SELECT k FROM a WHERE d < now() UNION ALL SELECT k FROM b WHERE y < unix_timestamp()

-- ranked: incremental
SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x, p) AS r FROM a WHERE trunc(current_date(), 'YEAR') > d

-- first: incremental
SELECT k, x, d FROM a WHERE d < current_date() ORDER BY x, k, d LIMIT 5

-- in_having: full, nondeterministic
SELECT k, max(d) AS m FROM a GROUP BY k HAVING max(d) < now()

-- mixed: full, nondeterministic
SELECT k FROM a WHERE datediff(current_date(), d) > 7

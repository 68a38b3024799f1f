-- units: incremental
SELECT k, datediff(DAY, d, DATE '2024-02-01') AS a, dateadd(MONTH, x, d) AS b, timestampadd(HOUR, x, d) AS c, timestampdiff(SECOND, d, TIMESTAMP '2024-02-01 00:00:00') AS e, date_diff(WEEK, d, date_add(QUARTER, 1, d)) AS g FROM a

-- units_grouped: incremental
SELECT date_add(year, 1, d) AS y, count(*) AS n, max(timestampdiff(minute, d, dateadd(day, x, d))) AS m FROM a GROUP BY date_add(year, 1, d)

-- days_without_a_unit: incremental
SELECT k, datediff(d, DATE '2024-01-01') AS a, date_add(d, x) AS b, dateadd(d, 1) AS c FROM a

-- scalar_numbered: incremental
SELECT a.k, a.x, (SELECT max(q.y) FROM (SELECT b.y, row_number() OVER (ORDER BY b.n) AS r FROM b WHERE b.k = a.k) AS q WHERE q.r = 1) AS m FROM a

-- lateral_numbered: incremental
SELECT a.k, q.y, q.r, q.g FROM a, LATERAL (SELECT b.y, row_number() OVER (ORDER BY b.n) AS r, lag(b.y) OVER w AS g FROM b WHERE b.k = a.k WINDOW w AS (ORDER BY b.n)) AS q

-- lateral_first: incremental
SELECT a.k, q.y FROM a LEFT JOIN LATERAL (SELECT z.y FROM (SELECT b.y, row_number() OVER (ORDER BY b.n DESC) AS r FROM b WHERE b.k = a.k) AS z WHERE z.r = 1) AS q

-- lateral_last_value: incremental
SELECT a.k, q.y, q.l, q.f FROM a, LATERAL (SELECT b.y, last_value(b.y) OVER (ORDER BY b.n) AS l, first_value(b.y) OVER (ORDER BY b.n) AS f FROM b WHERE b.k = a.k) AS q

-- exists_numbered: incremental
SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM (SELECT b.y, row_number() OVER (PARTITION BY b.n ORDER BY b.k) AS r FROM b WHERE b.k = a.k) AS q WHERE q.r = 2 AND q.y > a.x)

-- in_rolling: incremental
SELECT a.k, a.x FROM a WHERE a.x IN (SELECT sum(b.y) OVER (ORDER BY b.n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM b WHERE b.k = a.k)

-- lateral_qualify: full, clause
SELECT a.k, q.y FROM a, LATERAL (SELECT b.y FROM b WHERE b.k = a.k QUALIFY row_number() OVER (ORDER BY b.y) = 1) AS q

-- derived_generators: incremental
SELECT g.p, g.v, count(*) AS n FROM (SELECT posexplode(arr) FROM a WHERE k > 0) AS g(p, v) GROUP BY g.p, g.v

-- derived_stack: incremental
SELECT s.k, s.name, s.value FROM (SELECT k, stack(2, 'x', x, 'k', k) FROM a) AS s(k, name, value) WHERE s.value > 1

-- shifts: incremental
SELECT k, x >>> 1 AS r, k << 2 AS l, X '1F' AS h FROM a

-- words: incremental
SELECT k, 'today' AS label FROM a WHERE s <> 'now' OR s IN ('yesterday', 'b')

-- word_as_a_day: full, nondeterministic
SELECT k FROM a WHERE d < 'today'

-- word_in_a_cast: full, nondeterministic
SELECT k, to_timestamp('now') AS t FROM a

-- by_the_user: full, nondeterministic
SELECT k, user AS u FROM a

-- by_reflection: full, nondeterministic
SELECT k, reflect('java.util.UUID', 'randomUUID') AS id FROM a

-- by_the_version: full, nondeterministic
SELECT k, version() AS v FROM a

-- encrypted: full, nondeterministic
SELECT k, aes_encrypt(s, '0000111122223333') AS e FROM a

-- encrypted_with_a_vector: incremental
SELECT k, aes_encrypt(s, '0000111122223333', 'CBC', 'DEFAULT', unhex('00000000000000000000000000000000')) AS e, aes_encrypt(s, '0000111122223333', 'ECB') AS c FROM a

-- chance_in_a_subquery: full, nondeterministic
SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND rand() > 0.5)

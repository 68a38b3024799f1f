-- q1: incremental
SELECT * FROM (SELECT k,x,p FROM a) UNPIVOT INCLUDE NULLS (v FOR n IN (x AS `xx`, k))

-- q2: incremental
SELECT * FROM (SELECT k,x,f FROM a) UNPIVOT ((v1,v2) FOR n IN ((k,x) AS `ab`, (x,k) AS `cd`))

-- q4: incremental
FROM a SELECT k

-- q5: incremental
SELECT DISTINCT k, first_value(x) OVER (PARTITION BY k ORDER BY d) fv FROM a

-- q6: incremental
SELECT k, max(x) FILTER (WHERE k>1) AS m, count(DISTINCT x, s) AS c FROM a GROUP BY k

-- q7: incremental
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS p, k FROM a GROUP BY k

-- q8: incremental
SELECT k, listagg(s, ',') WITHIN GROUP (ORDER BY s) AS l FROM a GROUP BY k

-- q9: incremental
SELECT k, last_value(x) OVER (PARTITION BY k ORDER BY d ROWS UNBOUNDED PRECEDING) l FROM a

-- q10: incremental
SELECT k, last_value(x) OVER (PARTITION BY k ORDER BY d ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) l FROM a

-- q11: incremental
SELECT k, nth_value(x, 2) OVER (PARTITION BY k ORDER BY d ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) l FROM a

-- q12: incremental
SELECT k, x, avg(x) OVER (PARTITION BY k ORDER BY d RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW) l FROM a

-- q13: incremental
SELECT k, cume_dist() OVER (ORDER BY x) c, percent_rank() OVER (PARTITION BY s ORDER BY x) pr, ntile(3) OVER (ORDER BY x,k) nt FROM a

-- q14: incremental
SELECT k, sum(sum(x)) OVER (ORDER BY k) AS running FROM a GROUP BY k

-- q15: incremental
SELECT k, sum(x) / sum(sum(x)) OVER () AS share FROM a GROUP BY k

-- q16: incremental
SELECT CASE WHEN x > 2 THEN 'big' ELSE 'small' END AS size, count(*) AS n FROM a GROUP BY CASE WHEN x > 2 THEN 'big' ELSE 'small' END

-- q17: incremental
SELECT k, count(*) AS n FROM a GROUP BY k ORDER BY n DESC

-- q18: incremental
SELECT k, sum(x) s FROM a GROUP BY k HAVING s > 2

-- q19: incremental
SELECT a.k, b.n FROM a LEFT OUTER JOIN b ON a.k = b.k AND b.y BETWEEN a.x AND a.x + 2

-- q20: incremental
SELECT a.k FROM a, b WHERE a.k = b.k AND EXISTS (SELECT * FROM c WHERE c.y = b.y AND c.z > (SELECT avg(z) FROM c c2 WHERE c2.y = c.y))

-- q21: incremental
SELECT k, (SELECT count(*) FROM b WHERE b.k = a.k AND b.y > a.x) AS n FROM a

-- q22: incremental
SELECT k, (SELECT n FROM b WHERE b.k = a.k ORDER BY y LIMIT 1) AS n FROM a

-- q23: incremental
SELECT k, x FROM a WHERE (k, x) IN (SELECT k, max(x) FROM a GROUP BY k)

-- q25: incremental
SELECT k, x FROM a WHERE x NOT IN (1, 2, NULL)

-- q26: incremental
SELECT coalesce(a.k, b.k) AS k, a.x, b.y FROM a FULL OUTER JOIN b USING (k)

-- q27: incremental
SELECT * FROM b NATURAL JOIN c

-- q28: incremental
SELECT * EXCEPT (arr, st) FROM a

-- q29: incremental
SELECT a.*, b.n FROM a JOIN b ON a.k = b.k

-- q30: incremental
SELECT t.k, u.v FROM a t LATERAL VIEW explode(t.arr) u AS v WHERE u.v > 1

-- q31: incremental
SELECT k, inline(array(struct(x AS q, s AS r))) FROM a

-- q32: incremental
SELECT k, stack(2, 'x', x, 'k', k) AS (name, val) FROM a

-- q33: incremental
SELECT k, json_tuple('{"a":1}', 'a') AS j FROM a

-- q34: incremental
SELECT k, posexplode(arr) FROM a

-- q35: incremental
SELECT a.k, e.col FROM a, LATERAL explode(a.arr) e

-- q36: incremental
SELECT a.k, e.c FROM a LEFT JOIN LATERAL (SELECT count(*) c FROM b WHERE b.k = a.k) e

-- q37: incremental
SELECT v.i, a.k FROM (VALUES (1, 'a'), (2, 'b')) AS v(i, s) LEFT JOIN a ON a.s = v.s

-- q38: incremental
SELECT r.id, a.k FROM range(5) r LEFT JOIN a ON a.k = r.id

-- q39: incremental
SELECT k, explode(sequence(1, coalesce(x, 1))) AS i FROM a

-- q40: incremental
SELECT k, aggregate(arr, 0, (acc, e) -> acc + coalesce(e,0)) AS s, transform(arr, (e, i) -> e + i) AS t FROM a

-- q41: incremental
SELECT k, exists(arr, e -> e = x) AS h, filter(arr, e -> e > x) AS f, zip_with(arr, arr, (l, r) -> l * r) AS z FROM a

-- q42: incremental
SELECT d, date_format(d, 'yyyy-MM') AS m, date_add(d, 3) AS later, datediff(DATE '2024-02-01', d) AS diff, extract(DOW FROM d) AS dow, add_months(d, 1) AS am, last_day(d) AS ld FROM a

-- q43: incremental
SELECT date_trunc('MONTH', d) AS m, count(*) AS n FROM a GROUP BY 1

-- q44: incremental
SELECT k, d + INTERVAL 1 DAY AS d1, d - INTERVAL '2' MONTH AS d2, make_date(2024, 1, 1) AS md FROM a

-- q45: full, unorderable
SELECT s COLLATE UTF8_LCASE AS c, count(*) AS n FROM a GROUP BY s COLLATE UTF8_LCASE

-- q46: incremental
SELECT k, rank() OVER w AS r, sum(x) OVER w AS t FROM a WINDOW w AS (PARTITION BY k ORDER BY x)

-- q47: incremental
SELECT k, x FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY x DESC NULLS LAST) = 1

-- q48: incremental
SELECT k, grouping(k) AS g, grouping_id(k, s) AS gi, s, sum(x) AS t FROM a GROUP BY CUBE(k, s)

-- q49: incremental
SELECT k, s, sum(x) AS t FROM a GROUP BY k, s WITH ROLLUP

-- q50: incremental
SELECT k, s, sum(x) AS t FROM a GROUP BY k, GROUPING SETS ((s), ())

-- q51: incremental
SELECT k, collect_list(x) AS l, collect_set(s) AS cs, array_agg(s) AS ag FROM a GROUP BY k

-- q52: incremental
SELECT k, approx_count_distinct(x) AS ac, approx_percentile(x, 0.5) AS ap, skewness(x) AS sk, kurtosis(x) AS ku FROM a GROUP BY k

-- q53: incremental
SELECT any_value(x) AS av, bool_and(x > 0) AS ba, bool_or(x > 5) AS bo, bit_or(x) AS bx, max_by(s, x) AS mb, mode(x) AS mo, regr_slope(x, k) AS rs FROM a

-- q54: incremental
SELECT count(*) AS n FROM (SELECT k FROM a INTERSECT SELECT k FROM b)

-- q55: incremental
SELECT k FROM a EXCEPT ALL SELECT k FROM b

-- q56: incremental
(SELECT k FROM a ORDER BY x LIMIT 2) UNION ALL (SELECT k FROM b ORDER BY y LIMIT 2)

-- q57: incremental
SELECT k FROM a MINUS SELECT k FROM b

-- q58: incremental
SELECT k, try_divide(x, k) AS td, try_add(x, 1) AS ta, nvl(x, 0) AS nv, nvl2(x, 1, 2) AS n2, ifnull(x, 9) AS ifn, decode(x, 1, 'a', 'b') AS dc FROM a

-- q59: incremental
SELECT k, from_json('{"a":1}', 'a INT').a AS j, to_json(st) AS tj, get_json_object('{"a":2}', '$.a') AS g FROM a

-- q60: incremental
SELECT st.u, st.v, count(*) AS n FROM a GROUP BY st.u, st.v

-- q61: incremental
SELECT st, count(*) AS n FROM a GROUP BY st

-- q62: incremental
SELECT arr, count(*) AS n FROM a GROUP BY arr

-- q63: incremental
SELECT max(st) AS m, min(arr) AS ma FROM a GROUP BY k

-- q64: incremental
SELECT a1.k, a2.x FROM a a1 JOIN a a2 ON a1.k = a2.k AND a1.x < a2.x

-- q65: incremental
SELECT l.k FROM a l LEFT JOIN b m ON l.k = m.k LEFT JOIN c r ON m.y = r.y AND l.x > r.z WHERE r.z IS NULL

-- q66: incremental
SELECT a.k FROM a CROSS JOIN b WHERE a.x < b.y

-- q67: incremental
SELECT a.k, b.n, c.z FROM a JOIN b ON a.k = b.k RIGHT JOIN c ON b.y = c.y

-- q68: incremental
SELECT /*+ BROADCAST(b) */ a.k, b.n FROM a JOIN b ON a.k = b.k

-- q69: incremental
WITH t AS (SELECT k, sum(x) s FROM a GROUP BY k), u AS (SELECT avg(s) m FROM t) SELECT t.k FROM t, u WHERE t.s > u.m

-- q70: incremental
SELECT * FROM (SELECT k, s, x FROM a) PIVOT (sum(x) AS t, count(*) AS n FOR s IN ('a' AS aa, 'b' AS bb))

-- q71: incremental
SELECT k, x, lag(x, 1, 0) OVER (PARTITION BY k ORDER BY d, x) AS prev, x - lag(x) OVER (PARTITION BY k ORDER BY d, x) AS diff FROM a

-- q72: incremental
SELECT k, lag(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY d, x) AS prev FROM a

-- q73: incremental
SELECT window(CAST(d AS timestamp), '2 days').start AS w, count(*) AS n FROM a GROUP BY window(CAST(d AS timestamp), '2 days')

-- q74: full, clause
SELECT session_window(CAST(d AS timestamp), '2 days').start AS w, count(*) AS n FROM a GROUP BY session_window(CAST(d AS timestamp), '2 days')

-- q75: incremental
SELECT x.k FROM (SELECT k FROM a) x WHERE x.k = (SELECT max(k) FROM b)

-- q76: incremental
SELECT k, IF(EXISTS (SELECT 1 FROM b WHERE b.k = a.k), 1, 0) AS f FROM a

-- q77: incremental
SELECT sum(IF(x IN (SELECT y FROM b), 1, 0)) AS n FROM a

-- q78: incremental
SELECT k, sum(x) OVER (PARTITION BY k) - x AS rest FROM a WHERE x IS NOT NULL

-- q79: incremental
SELECT k, array_sort(collect_list(named_struct('x', x, 's', s))) AS l FROM a GROUP BY k

-- q80: incremental
SELECT k, sum(DISTINCT x) AS sd, avg(DISTINCT x) AS ad FROM a GROUP BY k

-- q81: incremental
SELECT hash(k, s) AS h, md5(s) AS m, sha2(s, 256) AS sh, crc32(s) AS c FROM a

-- q84: incremental
SELECT k, x FROM a SORT BY x

-- q85: incremental
SELECT k, x FROM a DISTRIBUTE BY k

-- q86: incremental
SELECT k FROM a CLUSTER BY k

-- q87: incremental
SELECT k FROM a WHERE s LIKE 'a%' ESCAPE '!' OR s RLIKE '^b' OR s ILIKE 'C%'

-- q88: incremental
SELECT * FROM a WHERE d BETWEEN '2024-01-01' AND '2024-01-05'

-- q89: incremental
SELECT CAST(x AS string) AS xs, x::double AS xd, int(f) AS fi, string(k) AS ks, date(d) AS dd FROM a

-- q90: incremental
SELECT count(*) FILTER (WHERE x > 1) AS n1, count(1) AS n2, sum(1) AS n3, count(x + 1) AS n4 FROM a

-- q91: incremental
SELECT min(d) AS lo, max(d) AS hi, max(s) AS ms FROM a WHERE k > 1

-- q92: incremental
SELECT k FROM a GROUP BY k HAVING count(*) = (SELECT max(n) FROM (SELECT count(*) AS n FROM a GROUP BY k))

-- q93: incremental
WITH a AS (SELECT k, x FROM a WHERE x > 1) SELECT k, count(*) AS n FROM a GROUP BY k

-- q94: incremental
SELECT id, k FROM a JOIN range(3) ON id = k

-- q95: incremental
SELECT a.k, e.c FROM a LEFT JOIN LATERAL (SELECT max(n) c FROM b WHERE b.k = a.k) e ON TRUE JOIN b ON b.k = a.k

-- project: incremental
SELECT k, x + 1 AS y FROM a

-- filter_null: incremental
SELECT k, p FROM a WHERE x IS NULL OR p > 2

-- star: incremental
SELECT * FROM b

-- star_except: incremental
SELECT * EXCEPT (arr, f) FROM a

-- case_when: incremental
SELECT k, CASE WHEN x > 2 THEN 'big' WHEN x IS NULL THEN 'none' ELSE 'small' END AS size FROM a

-- casts: incremental
SELECT CAST(x AS string) AS xs, x::bigint AS xb, CAST(p AS double) AS pd, try_cast(s AS int) AS si FROM a

-- dates: incremental
SELECT year(d) AS y, date_trunc('month', d) AS m, trunc(d, 'MM') AS t, date_add(d, x) AS n, d + interval 1 day AS i, datediff(d, DATE '2024-01-01') AS df FROM a

-- strings: incremental
SELECT upper(s) AS u, s || '-' || k AS c, substring(s, 1, 1) AS f1, length(s) AS l, regexp_replace(s, '[a-c]', 'x') AS r FROM a

-- like_rlike: incremental
SELECT s FROM a WHERE s LIKE 'a%' OR s RLIKE 'b|c' OR s IN ('d', 'e')

-- between: incremental
SELECT k FROM a WHERE x BETWEEN 1 AND 3 AND d BETWEEN DATE '2024-01-01' AND DATE '2024-01-05'

-- null_functions: incremental
SELECT coalesce(x, k, 0) AS c, nvl(x, -1) AS n, nullif(x, 1) AS u, if(x > 1, 1, 0) AS i, ifnull(s, '') AS e FROM a

-- arithmetic: incremental
SELECT x % 2 AS m, x div 2 AS d, p * 1.5 AS q, p / 3 AS r, -x AS neg, abs(x - 5) AS ab FROM a

-- safe_arithmetic: incremental
SELECT try_divide(x, k) AS q, try_add(x, k) AS s FROM a

-- decode_map: incremental
SELECT decode(x, 1, 'one', 2, 'two', 'many') AS w FROM a

-- bitwise: incremental
SELECT x & 1 AS lo, x | 4 AS hi, shiftleft(x, 1) AS sh FROM a

-- json: incremental
SELECT get_json_object('{"a":1}', '$.a') AS j, k FROM a

-- struct_fields: incremental
SELECT st.u AS u, st.v AS v FROM a WHERE st.u > 1

-- nested_struct: incremental
SELECT k, named_struct('x', x, 'p', p, 'st', st) AS whole FROM a

-- arrays: incremental
SELECT k, size(arr) AS n, arr[0] AS first, array_contains(arr, 1) AS has, sort_array(arr) AS srt FROM a WHERE size(arr) > 0

-- higher_order: incremental
SELECT transform(arr, e -> e + k) AS t, filter(arr, e -> e > 1) AS f, aggregate(arr, 0, (acc, e) -> acc + coalesce(e, 0)) AS s FROM a

-- array_text: incremental
SELECT array_join(transform(arr, e -> string(e)), ',') AS j FROM a

-- constants: incremental
SELECT 1 AS one, 'x' AS t, k FROM b

-- derived: incremental
SELECT q.y FROM (SELECT k + 1 AS y FROM a WHERE x > 1) q WHERE q.y < 5

-- cte: incremental
WITH w AS (SELECT k, x FROM a WHERE x > 0) SELECT k, count(*) AS n FROM w GROUP BY k

-- cte_twice: incremental
WITH w AS (SELECT k, x FROM a) SELECT l.k, r.x FROM w l JOIN w r ON l.k = r.x

-- cte_chain: incremental
WITH w AS (SELECT k, x FROM a), v AS (SELECT k FROM w WHERE x > 1) SELECT w.k, w.x FROM w JOIN v ON w.k = v.k

-- cte_columns: incremental
WITH w (kk, xx) AS (SELECT k, x FROM a) SELECT kk FROM w WHERE xx = 2

-- cte_nested: incremental
SELECT * FROM (WITH w AS (SELECT k FROM b) SELECT k + 1 AS k1 FROM w) q

-- is_distinct: incremental
SELECT k FROM a WHERE NOT (k <=> x)

-- alias_reuse: incremental
SELECT k AS z, z + 1 AS z1 FROM b

-- order_ignored: incremental
SELECT k, y FROM b ORDER BY y DESC

-- boolean_value: incremental
SELECT k, x > 1 AND p < 3 AS b FROM a

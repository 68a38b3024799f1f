-- sums: incremental
SELECT k, sum(x) AS sx, sum(p) AS sp, avg(p) AS ap, avg(x) AS ax, count(*) AS n, count(x) AS nx FROM a GROUP BY k

-- min_max: incremental
SELECT k, min(x) AS lo, max(d) AS hi, min(s) AS ls FROM a GROUP BY k

-- count_distinct: incremental
SELECT k, count(DISTINCT x) AS n, count(DISTINCT x, s) AS m, sum(DISTINCT x) AS sd FROM a GROUP BY k

-- filter_clause: incremental
SELECT k, count(*) FILTER (WHERE x > 1) AS n, sum(p) FILTER (WHERE s = 'a') AS sp, max(x) FILTER (WHERE x < 3) AS m FROM a GROUP BY k

-- statistics: incremental
SELECT k, stddev(f) AS sd, var_pop(x) AS vp, skewness(x) AS sk, kurtosis(x) AS ku, covar_pop(x, k) AS cp FROM a GROUP BY k

-- regression: incremental
SELECT k, regr_slope(f, x) AS sl, regr_count(f, x) AS n FROM a GROUP BY k

-- float_sums: incremental
SELECT k, sum(f) AS sf, avg(f) AS af FROM a GROUP BY k

-- booleans: incremental
SELECT k, bool_and(x > 0) AS al, bool_or(x > 2) AS an, every(x > 0) AS ev, count_if(x > 1) AS ci FROM a GROUP BY k

-- bits: incremental
SELECT k, bit_and(x) AS ba, bit_or(x) AS bo, bit_xor(x) AS bx FROM a GROUP BY k

-- percentiles: incremental
SELECT k, percentile(x, 0.5) AS p, median(x) AS m, percentile_approx(x, 0.5) AS pa FROM a GROUP BY k

-- percentile_within: incremental
SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS pc, percentile_disc(0.5) WITHIN GROUP (ORDER BY x) AS pd FROM a GROUP BY k

-- modes: incremental
SELECT k, mode(x) AS m FROM a GROUP BY k

-- collections: incremental
SELECT k, sort_array(collect_list(x)) AS l, collect_set(s) AS s FROM a GROUP BY k

-- arrays_of_structs: incremental
SELECT k, collect_list(struct(x, s)) AS l FROM a GROUP BY k

-- texts: incremental
SELECT k, listagg(s, ',') AS l, listagg(DISTINCT s, '+') AS ld, string_agg(s, '|') WITHIN GROUP (ORDER BY s DESC) AS lo FROM a GROUP BY k

-- firsts: incremental
SELECT k, first(x) AS f, last(x) AS l, any_value(s) AS v, first(x) IGNORE NULLS AS fi FROM a GROUP BY k

-- extremes_by: incremental
SELECT k, max_by(s, x) AS mx, min_by(s, x) AS mn FROM a GROUP BY k

-- approximate: incremental
SELECT k, approx_count_distinct(x) AS n FROM a GROUP BY k

-- try_sums: incremental
SELECT k, try_sum(x) AS s, try_avg(p) AS a FROM a GROUP BY k

-- expression_keys: incremental
SELECT x % 2 AS m, upper(s) AS u, count(*) AS n FROM a GROUP BY x % 2, upper(s)

-- ordinals: incremental
SELECT year(d) AS y, s, sum(p) AS t FROM a GROUP BY 1, 2

-- alias_keys: incremental
SELECT x + k AS g, count(*) AS n FROM a GROUP BY g

-- group_by_all: incremental
SELECT k, s, sum(x) AS t FROM a GROUP BY ALL

-- null_keys: incremental
SELECT x, count(*) AS n FROM a GROUP BY x

-- double_keys: incremental
SELECT f, count(*) AS n, max(x) AS m FROM a GROUP BY f

-- struct_keys: incremental
SELECT st, count(*) AS n FROM a GROUP BY st

-- array_keys: incremental
SELECT arr, count(*) AS n FROM a GROUP BY arr

-- key_not_selected: incremental
SELECT sum(x) AS s FROM a GROUP BY k

-- only_keys: incremental
SELECT k FROM a GROUP BY k

-- having: incremental
SELECT k, sum(x) AS s FROM a GROUP BY k HAVING count(*) > 1 AND sum(x) > 2

-- having_other: incremental
SELECT k FROM a GROUP BY k HAVING max(x) > 2

-- expressions_over: incremental
SELECT k, sum(x) / count(*) + 1 AS q, round(avg(p), 1) AS r FROM a GROUP BY k

-- global: incremental
SELECT count(*) AS n, sum(x) AS s, avg(p) AS a FROM a

-- global_empty: incremental
SELECT count(*) AS n, sum(x) AS s, max(p) AS m FROM a WHERE k > 100

-- global_extremes: incremental
SELECT min(x) AS lo, max(p) AS hi, count(DISTINCT s) AS n FROM a

-- global_having: incremental
SELECT sum(x) AS s FROM a HAVING count(*) > 5

-- join_groups: incremental
SELECT b.n, sum(a.p) AS s, count(*) AS c FROM a JOIN b ON a.k = b.k GROUP BY b.n

-- join_max: incremental
SELECT b.n, max(a.p) AS s FROM a JOIN b ON a.k = b.k GROUP BY b.n

-- three_join_distinct: incremental
SELECT c.z, count(DISTINCT a.x) AS n FROM a, b, c WHERE a.k = b.k AND b.y = c.y GROUP BY c.z

-- cross_key: incremental
SELECT a.x + b.y AS g, max(a.p) AS m FROM a JOIN b ON a.k = b.k GROUP BY a.x + b.y

-- two_levels: incremental
SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM a GROUP BY k) GROUP BY n

-- two_levels_max: incremental
SELECT m, sum(k) AS s FROM (SELECT k, max(x) AS m FROM a GROUP BY k) GROUP BY m

-- three_levels: incremental
SELECT max(c) AS m FROM (SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM a GROUP BY k) GROUP BY n)

-- join_of_groups: incremental
SELECT l.k, l.s, r.n FROM (SELECT k, sum(x) AS s FROM a GROUP BY k) l JOIN (SELECT k, count(*) AS n FROM b GROUP BY k) r ON l.k = r.k

-- group_join_base: incremental
SELECT a.k, a.x, g.m FROM a JOIN (SELECT k, max(x) AS m FROM a GROUP BY k) g ON a.k = g.k AND a.x = g.m

-- share_of_total: incremental
SELECT g.k, try_divide(g.s, t.s) AS share FROM (SELECT k, sum(p) AS s FROM a GROUP BY k) g CROSS JOIN (SELECT sum(p) AS s FROM a) t

-- union_groups: incremental
SELECT k, sum(v) AS s FROM (SELECT k, x AS v FROM a UNION ALL SELECT k, y FROM b) GROUP BY k

-- union_max: incremental
SELECT k, max(v) AS s FROM (SELECT k, x AS v FROM a UNION ALL SELECT k, y FROM b) GROUP BY k

-- distinct: incremental
SELECT DISTINCT k, s FROM a

-- distinct_join: incremental
SELECT DISTINCT a.s, b.n FROM a JOIN b ON a.k = b.k

-- distinct_of_group: incremental
SELECT DISTINCT n FROM (SELECT k, count(*) AS n FROM a GROUP BY k)

-- pivot_of_texts_and_counts: incremental
SELECT * FROM (SELECT k, x, s FROM a) PIVOT (count(*) AS n, max(s) AS m, first(s) AS f, count(DISTINCT s) AS d FOR x IN (1 AS one, 2 AS two))

-- several_chosen_where_the_order_ties: incremental
SELECT k, listagg(s, ',') WITHIN GROUP (ORDER BY x) AS l, max_by(s, x, 2) AS m, min_by(s, d, 2) AS n FROM a GROUP BY k

-- several_chosen_where_the_order_ties_for_each_row: incremental
SELECT b.k, (SELECT listagg(a.s, ',') WITHIN GROUP (ORDER BY a.x) FROM a WHERE a.k = b.k) AS l, (SELECT max_by(a.s, a.x, 2) FROM a WHERE a.k = b.k) AS m FROM b

-- values: incremental
SELECT k, map('x', x) AS m FROM a

-- entries: incremental
SELECT k, map_from_entries(array(struct('b' AS n, x AS v), struct('a' AS n, k AS v))) AS m FROM a

-- nested: incremental
SELECT k, map('one', map('z', x, 'y', k)) AS m, array(map(s, k)) AS l, named_struct('m', map(1, x)) AS t FROM a WHERE s IS NOT NULL

-- of_groups: incremental
SELECT k, map('n', count(*), 'm', max(x)) AS m FROM a GROUP BY k

-- of_sums: incremental
SELECT k, map_from_arrays(array('n', 's'), array(count(*), sum(x))) AS m FROM a GROUP BY k

-- as_key: incremental
SELECT map('s', s) AS m, count(*) AS n FROM a GROUP BY map('s', s)

-- windowed: incremental
SELECT k, map('x', x) AS m, row_number() OVER (PARTITION BY k ORDER BY x) AS n FROM a

-- limited: incremental
SELECT k, map('x', x, 'p', k) AS m FROM a ORDER BY x DESC LIMIT 4

-- exploded: incremental
SELECT k, e.key, e.value FROM a LATERAL VIEW explode(map('x', x, 'k', k)) e AS key, value

-- joined: incremental
SELECT a.k, map(b.n, a.x) AS m FROM a JOIN b ON a.k = b.k WHERE b.n IS NOT NULL

-- outer: incremental
SELECT a.k, t.m FROM a LEFT JOIN (SELECT k, map('y', y) AS m FROM b) t ON a.k = t.k

-- united: incremental
SELECT map('x', x) AS m FROM a UNION ALL SELECT map('y', y) FROM b

-- filtered: incremental
SELECT k, map_filter(map('x', x, 'k', k), (n, v) -> v > 1) AS m FROM a WHERE map('x', x)['x'] > 1

-- chosen: incremental
SELECT k, first(map('x', x, 'k', k)) AS f, last(map('x', x)) FILTER (WHERE x > 1) AS l, max_by(map('x', x), d) AS m, min_by(struct(map('x', x) AS u, s), d) AS n FROM a GROUP BY k

-- listed: incremental
SELECT k, collect_list(map('x', x, 'k', k)) AS l, mode(map('x', x)) AS m FROM a WHERE x IS NOT NULL GROUP BY k

-- chosen_in_frames: incremental
SELECT k, x, d, last_value(map('x', x)) OVER (PARTITION BY k ORDER BY d) AS l, first_value(map('x', x)) OVER (PARTITION BY k ORDER BY d) AS f, size(collect_list(map('x', x)) OVER (PARTITION BY k ORDER BY d)) AS c, nth_value(map('x', x), 2) OVER (PARTITION BY k ORDER BY d) AS n FROM a

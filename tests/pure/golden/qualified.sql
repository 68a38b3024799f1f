-- columns with their tables
SELECT a, c FROM r JOIN s ON r.b = s.b;
SELECT r.a AS a, s.c AS c FROM r AS r JOIN s AS s ON r.b = s.b;

-- stars with their columns
SELECT * FROM r, t;
SELECT r.a AS a, r.b AS b, t.c AS c, t.d AS d FROM r AS r CROSS JOIN t AS t;

-- inside subqueries, columns of the query around them
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE c = a);
SELECT r.a AS a FROM r AS r WHERE EXISTS(SELECT 1 AS `1` FROM s AS s WHERE s.c = r.a);

-- entries of WITH
WITH x AS (SELECT a, count(*) AS n FROM r GROUP BY a) SELECT x.n, y.d FROM x JOIN t AS y ON c = a;
WITH x AS (SELECT r.a AS a, COUNT(*) AS n FROM r AS r GROUP BY r.a) SELECT x.n AS n, y.d AS d FROM x AS x JOIN t AS y ON y.c = x.a;

-- USING gives one column
SELECT b, a, c FROM r JOIN s USING (b);
SELECT r.b AS b, r.a AS a, s.c AS c FROM r AS r JOIN s AS s ON r.b = s.b;

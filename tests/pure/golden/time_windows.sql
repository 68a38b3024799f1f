-- the column window of a grouping is its call
-- on Spark
SELECT window.start AS s, sum(x) AS n FROM o GROUP BY window(at, '1 hour');
SELECT WINDOW(at, '1 hour').start AS s, SUM(x) AS n FROM o GROUP BY WINDOW(at, '1 hour');

-- also in HAVING and as a whole
-- on Spark
SELECT window, count(*) AS n FROM o GROUP BY window(at, '1 hour') HAVING window.end > TIMESTAMP '2024-01-01 01:00:00';
SELECT WINDOW(at, '1 hour') AS window, COUNT(*) AS n FROM o GROUP BY WINDOW(at, '1 hour') HAVING WINDOW(at, '1 hour').end > CAST('2024-01-01 01:00:00' AS TIMESTAMP);

-- a table called window is a table
SELECT window.a FROM r AS window;
SELECT window.a FROM r AS window;

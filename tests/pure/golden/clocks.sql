-- what a row is compared with becomes the one row of a clock
SELECT o.x AS x FROM o AS o WHERE o.at <= NOW() - INTERVAL '7' DAYS AND o.x > 0;
SELECT o.x AS x FROM o AS o, (SELECT NOW() - INTERVAL '7' DAYS AS at) AS __ivm_clock_1 WHERE o.at <= __ivm_clock_1.at AND o.x > 0;

-- from either side, a BETWEEN as two comparisons
SELECT o.x AS x FROM o AS o WHERE NOW() > o.at AND o.at BETWEEN NOW() - INTERVAL '9000' DAYS AND NOW();
SELECT o.x AS x FROM o AS o, (SELECT NOW() AS at) AS __ivm_clock_1, (SELECT NOW() - INTERVAL '9000' DAYS AS at) AS __ivm_clock_2, (SELECT NOW() AS at) AS __ivm_clock_3 WHERE __ivm_clock_1.at > o.at AND o.at >= __ivm_clock_2.at AND o.at <= __ivm_clock_3.at;

-- a day that times are compared with is its midnight
SELECT o.x AS x FROM o AS o WHERE o.at < CURRENT_DATE();
SELECT o.x AS x FROM o AS o, (SELECT CAST(CURRENT_DATE() AS TIMESTAMP) AS at) AS __ivm_clock_1 WHERE o.at < __ivm_clock_1.at;

-- a time that days are compared with is a day
SELECT d.x AS x FROM d AS d WHERE d.day < NOW() - INTERVAL '1' DAY;
SELECT d.x AS x FROM d AS d, (SELECT IF((NOW() - INTERVAL '1' DAY) = CAST(NOW() - INTERVAL '1' DAY AS DATE), CAST(NOW() - INTERVAL '1' DAY AS DATE), DATE_ADD(CAST(NOW() - INTERVAL '1' DAY AS DATE), 1)) AS at) AS __ivm_clock_1 WHERE d.day < __ivm_clock_1.at;

-- in a derived table, through which the column's type is found, and beside joins
SELECT r.a AS a FROM r AS r LEFT JOIN s AS s ON s.b = r.b CROSS JOIN (SELECT o.at AS t FROM o AS o) AS q WHERE q.t <= CURRENT_DATE;
SELECT r.a AS a FROM r AS r LEFT JOIN s AS s ON s.b = r.b CROSS JOIN (SELECT o.at AS t FROM o AS o) AS q, (SELECT CAST(CURRENT_DATE AS TIMESTAMP) AS at) AS __ivm_clock_1 WHERE q.t <= __ivm_clock_1.at;

-- in a subquery
SELECT r.a AS a FROM r AS r WHERE EXISTS(SELECT 1 AS one FROM o AS o WHERE o.x = r.a AND o.at < NOW());
SELECT r.a AS a FROM r AS r WHERE EXISTS(SELECT 1 AS one FROM o AS o, (SELECT NOW() AS at) AS __ivm_clock_1 WHERE o.x = r.a AND o.at < __ivm_clock_1.at);

-- without the time nothing is changed
SELECT o.x AS x FROM o AS o WHERE o.at < CAST('2030-01-01' AS TIMESTAMP);
SELECT o.x AS x FROM o AS o WHERE o.at < CAST('2030-01-01' AS TIMESTAMP);

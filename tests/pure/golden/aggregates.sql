-- calls that no aggregate is stay as they are
SELECT a, sum(b) AS s FROM r GROUP BY a;
SELECT a, SUM(b) AS s FROM r GROUP BY a;

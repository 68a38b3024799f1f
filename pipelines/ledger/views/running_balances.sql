-- mode: incremental
SELECT account, booked_on, turnover, sum(turnover) OVER (PARTITION BY account ORDER BY booked_on) AS balance
FROM (SELECT account, booked_on, sum(amount) AS turnover FROM entries GROUP BY account, booked_on) AS days

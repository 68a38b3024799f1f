-- mode: incremental
SELECT account, sum(amount) AS balance, count(*) AS entries, max(booked_on) AS last_booked
FROM entries
GROUP BY account

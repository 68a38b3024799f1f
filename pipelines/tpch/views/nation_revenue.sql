-- A view over a view: nations of q05 with at least a tenth of a million in revenue
SELECT n_name, revenue, revenue / 1000000 AS revenue_millions
FROM q05
WHERE revenue > 100000

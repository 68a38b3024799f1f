-- a table function gets the names of its columns
-- on Spark
-- columns: id bigint
SELECT r.a, x.* FROM r, range(2) AS x;
SELECT r.a, x.* FROM r CROSS JOIN RANGE(2) AS x(id);

-- columns that the user names stay
SELECT r.a, x.i FROM r, range(2) AS x(i);
SELECT r.a, x.i FROM r CROSS JOIN RANGE(2) AS x(i);

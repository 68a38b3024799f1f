-- fields are named after their columns
SELECT struct(a, b) AS p FROM r;
SELECT NAMED_STRUCT('a', a, 'b', b) AS p FROM r;

-- an alias names a field, and what has no name gets its number
SELECT struct(r.a AS x, r.b + 1) AS p FROM r;
SELECT NAMED_STRUCT('x', r.a, 'col2', r.b + 1) AS p FROM r;

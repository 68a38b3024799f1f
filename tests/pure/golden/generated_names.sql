-- columns of a generator that a query around it names
-- on Spark
-- columns: pos int, col int
SELECT g.p, g.y FROM (SELECT posexplode(l) FROM o) AS g(p, y);
SELECT g.p, g.y FROM (SELECT __ivm_made.pos AS pos, __ivm_made.col AS col FROM o LATERAL VIEW POSEXPLODE(l) __ivm_made AS pos, col) AS g(p, y);

-- a generator in the outermost query stays
-- on Spark
SELECT x, explode(l) AS y FROM o;
SELECT x, EXPLODE(l) AS y FROM o;

-- the fields of a struct in place of its star
SELECT k, st.* FROM n;
SELECT k, st.u AS u, st.v AS v FROM n;

-- with its table's alias
-- on Spark
-- columns: u int, v int
SELECT x.st.*, x.k FROM n AS x;
SELECT x.st.u AS u, x.st.v AS v, x.k FROM n AS x;

-- a table's star stays
SELECT n.k, r.* FROM n JOIN r ON n.k = r.a;
SELECT n.k, r.* FROM n JOIN r ON n.k = r.a;

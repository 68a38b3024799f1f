-- what every reader asks of groups is theirs
SELECT r.a, r.b FROM r WHERE r.a IN (SELECT b FROM s GROUP BY b HAVING sum(c) > 2 AND max(c) < 4);
unit v__1
  table `b` int, `agg_1` bigint, `agg_2` int
  key `b`
  branch
    from "`s` AS `s`"
    reads `s` `b`, `c`
    row `b` int = "`s`.`b`"
    row `arg_1` int = "`s`.`c`"
  group `b` int
  call `agg_1` = "SUM(`arg_1`)"
  call `agg_2` = "MAX(`arg_1`)"
  of `__ivm_group`
  having "`__ivm_group`.`agg_1` > 2"
  having "`__ivm_group`.`agg_2` < 4"
  out `b` = "`__ivm_group`.`b`"
  out `agg_1` = "`__ivm_group`.`agg_1`"
  out `agg_2` = "`__ivm_group`.`agg_2`"
unit v
  table `a` int, `b` int
  branch
    from "`r` AS `r`"
    reads `r` `a`, `b`
    reads `v__1` `b`, `agg_1`, `agg_2`
    where "`r`.`a` IN (SELECT `v__1`.`b` AS `b` FROM `v__1` AS `v__1` WHERE (`v__1`.`agg_1` > 2) AND (`v__1`.`agg_2` < 4))"
    row `a` int = "`r`.`a`"
    row `b` int = "`r`.`b`";

-- the groups of a join are those that it asks for
SELECT x.b, y.n FROM (SELECT b, count(*) AS n FROM r GROUP BY b) AS x JOIN (SELECT b, count(*) AS n FROM s GROUP BY b HAVING count(*) > 1) AS y ON x.b = y.b WHERE x.n <> 2;
unit v__1
  table `b` int, `agg_1` bigint
  key `b`
  branch
    from "`r` AS `r`"
    reads `r` `b`
    row `b` int = "`r`.`b`"
  group `b` int
  sums `b` int, `__ivm_count` bigint
  call `agg_1` = "COUNT(*)"
  of `__ivm_group`
  having "`__ivm_group`.`agg_1` <> 2"
  out `b` = "`__ivm_group`.`b`"
  out `agg_1` = "`__ivm_group`.`agg_1`"
unit v__2
  table `b` int, `agg_1` bigint
  key `b`
  branch
    from "`s` AS `s`"
    reads `s` `b`
    row `b` int = "`s`.`b`"
  group `b` int
  sums `b` int, `__ivm_count` bigint
  call `agg_1` = "COUNT(*)"
  of `__ivm_group`
  having "`__ivm_group`.`agg_1` > 1"
  out `b` = "`__ivm_group`.`b`"
  out `agg_1` = "`__ivm_group`.`agg_1`"
unit v
  table `b` int, `n` bigint
  key `b`
  branch
    from "`v__1` AS `v__1`, `v__2` AS `v__2`"
    reads `v__1` `b`, `agg_1`
    reads `v__2` `b`, `agg_1`
    where "`v__2`.`agg_1` > 1"
    where "`v__1`.`b` = `v__2`.`b`"
    where "`v__1`.`agg_1` <> 2"
    row `b` int = "`v__1`.`b`"
    row `n` bigint = "`v__2`.`agg_1`";

-- of a WITH entry that is read twice what both ask is its own
WITH g AS (SELECT a, sum(b) AS n FROM r GROUP BY a) SELECT x.a, y.n FROM g AS x JOIN g AS y ON x.a = y.n WHERE x.n > 1 AND y.n > 1 AND y.a = 2;
unit v__1
  table `a` int, `agg_1` bigint
  key `a`
  branch
    from "`r` AS `r`"
    reads `r` `a`, `b`
    row `a` int = "`r`.`a`"
    row `arg_1` int = "`r`.`b`"
  group `a` int
  sums `a` int, `n_arg_1` bigint, `s_arg_1` decimal(38,0), `__ivm_count` bigint
  call `agg_1` = "SUM(`arg_1`)"
  of `__ivm_group`
  having "`__ivm_group`.`agg_1` > 1"
  out `a` = "`__ivm_group`.`a`"
  out `agg_1` = "`__ivm_group`.`agg_1`"
unit v
  table `a` int, `n` bigint
  branch
    from "`v__1` AS `v__1`, `v__1` AS `v__1_2`"
    reads `v__1` `a`, `agg_1`
    reads `v__1_2` `a`, `agg_1`
    where "`v__1`.`a` = `v__1_2`.`agg_1`"
    where "`v__1`.`agg_1` > 1"
    where "`v__1_2`.`agg_1` > 1"
    where "`v__1_2`.`a` = 2"
    row `a` int = "`v__1`.`a`"
    row `n` bigint = "`v__1_2`.`agg_1`";

-- numbered rows are kept up to the number that is asked for
SELECT s.c, x.k FROM (SELECT a, b, rank() OVER (PARTITION BY b ORDER BY a) AS k FROM r) AS x JOIN s ON s.b = x.b WHERE x.k <= 1;
unit v__1
  table `c0` int, `c1` int, `win_1` bigint
  branch
    from "`r` AS `r`"
    reads `r` `a`, `b`
    row `c0` int = "`r`.`b`"
    row `c1` int = "`r`.`a`"
  window `c0` int
  call `win_1` = "RANK() OVER (PARTITION BY `c0` ORDER BY `c1`)"
  of `__ivm_group`
  having "`__ivm_group`.`win_1` <= 1"
  out `c0` = "`__ivm_group`.`c0`"
  out `c1` = "`__ivm_group`.`c1`"
  out `win_1` = "`__ivm_group`.`win_1`"
unit v
  table `c` int, `k` bigint
  branch
    from "`v__1` AS `v__1`, `s` AS `s`"
    reads `v__1` `c0`, `win_1`
    reads `s` `b`, `c`
    where "`s`.`b` = `v__1`.`c0`"
    where "`v__1`.`win_1` <= 1"
    row `c` int = "`s`.`c`"
    row `k` bigint = "`v__1`.`win_1`";

-- first rows are all kept
SELECT s.c, x.a FROM (SELECT a, b FROM r ORDER BY a, b LIMIT 3) AS x JOIN s ON s.b = x.b WHERE x.a < 2;
unit v__1
  table `c0` int, `c1` int
  branch
    from "`r` AS `r`"
    reads `r` `a`, `b`
    row `c0` int = "`r`.`a`"
    row `c1` int = "`r`.`b`"
  top
  first "ORDER BY `c0`, `c1`\nLIMIT 3"
  of `__ivm_group`
  out `c0` = "`__ivm_group`.`c0`"
  out `c1` = "`__ivm_group`.`c1`"
unit v
  table `c` int, `a` int
  branch
    from "`v__1` AS `v__1`, `s` AS `s`"
    reads `v__1` `c0`, `c1`
    reads `s` `b`, `c`
    where "`s`.`b` = `v__1`.`c1`"
    where "`v__1`.`c0` < 2"
    row `c` int = "`s`.`c`"
    row `a` int = "`v__1`.`c0`";

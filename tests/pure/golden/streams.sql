-- counts that nothing looks up are a stream
SELECT n, count(*) AS m FROM (SELECT a, count(*) AS n FROM r GROUP BY a) AS x GROUP BY n;
unit v__1
  stream `a` int, `agg_1` bigint
  key `a`
  branch
    from "`r` AS `r`"
    reads `r` `a`
    row `a` int = "`r`.`a`"
  group `a` int
  sums `a` int, `__ivm_count` bigint
  call `agg_1` = "COUNT(*)"
  of `__ivm_group`
  out `a` = "`__ivm_group`.`a`"
  out `agg_1` = "`__ivm_group`.`agg_1`"
unit v
  table `n` bigint, `m` bigint
  key `n`
  branch
    from "`v__1` AS `v__1`"
    reads `v__1` `agg_1`
    row `n` bigint = "`v__1`.`agg_1`"
  group `n` bigint
  sums `n` bigint, `__ivm_count` bigint
  call `agg_1` = "COUNT(*)"
  of `__ivm_group`
  out `n` = "`__ivm_group`.`n`"
  out `m` = "`__ivm_group`.`agg_1`";

-- counts that a join looks up are a table
SELECT x.n, s.c FROM (SELECT a, count(*) AS n FROM r GROUP BY a) AS x JOIN s ON s.b = x.a;
unit v__1
  table `a` int, `agg_1` bigint
  key `a`
  branch
    from "`r` AS `r`"
    reads `r` `a`
    row `a` int = "`r`.`a`"
  group `a` int
  sums `a` int, `__ivm_count` bigint
  call `agg_1` = "COUNT(*)"
  of `__ivm_group`
  out `a` = "`__ivm_group`.`a`"
  out `agg_1` = "`__ivm_group`.`agg_1`"
unit v
  table `n` bigint, `c` int
  branch
    from "`v__1` AS `v__1`, `s` AS `s`"
    reads `v__1` `a`, `agg_1`
    reads `s` `b`, `c`
    where "`s`.`b` = `v__1`.`a`"
    row `n` bigint = "`v__1`.`agg_1`"
    row `c` int = "`s`.`c`";

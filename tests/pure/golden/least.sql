-- of a recursion only the least value is kept where min() alone is taken
WITH RECURSIVE p (n, d) AS (SELECT src, w FROM e UNION SELECT e.dst, p.d + e.w FROM p JOIN e ON e.src = p.n) SELECT n, min(d) AS d FROM p GROUP BY n;
unit v__1
  table `c0` int, `c1` int, `__ivm_rank` int
  fixpoint distinct least `c1`
  branch
    from "`e` AS `e`"
    reads `e` `src`, `w`
    row `c0` int = "`e`.`src`"
    row `c1` int = "`e`.`w`"
    row `__ivm_rank` int = "CAST(-1 + 1 AS INT)"
  branch
    from "`v__1` AS `v__1_2`, `e` AS `e_2`"
    reads `v__1_2` `c0`, `c1`, `__ivm_rank`
    reads `e_2` `src`, `dst`, `w`
    where "`e_2`.`src` = `v__1_2`.`c0`"
    row `c0` int = "`e_2`.`dst`"
    row `c1` int = "`v__1_2`.`c1` + `e_2`.`w`"
    row `__ivm_rank` int = "CAST(`v__1_2`.`__ivm_rank` + 1 AS INT)"
unit v
  table `n` int, `d` int
  key `n`
  branch
    from "`v__1` AS `v__1_3_2`"
    reads `v__1_3_2` `c0`, `c1`
    row `n` int = "`v__1_3_2`.`c0`"
    row `arg_1` int = "`v__1_3_2`.`c1`"
  group `n` int
  call `agg_1` = "MIN(`arg_1`)"
  of `__ivm_group`
  out `n` = "`__ivm_group`.`n`"
  out `d` = "`__ivm_group`.`agg_1`";

-- all rows are kept where max() is taken
WITH RECURSIVE p (n, d) AS (SELECT src, w FROM e UNION SELECT e.dst, p.d + e.w FROM p JOIN e ON e.src = p.n) SELECT n, max(d) AS d FROM p GROUP BY n;
unit v__1
  table `c0` int, `c1` int, `__ivm_rank` int
  fixpoint distinct
  branch
    from "`e` AS `e`"
    reads `e` `src`, `w`
    row `c0` int = "`e`.`src`"
    row `c1` int = "`e`.`w`"
    row `__ivm_rank` int = "CAST(-1 + 1 AS INT)"
  branch
    from "`v__1` AS `v__1_2`, `e` AS `e_2`"
    reads `v__1_2` `c0`, `c1`, `__ivm_rank`
    reads `e_2` `src`, `dst`, `w`
    where "`e_2`.`src` = `v__1_2`.`c0`"
    row `c0` int = "`e_2`.`dst`"
    row `c1` int = "`v__1_2`.`c1` + `e_2`.`w`"
    row `__ivm_rank` int = "CAST(`v__1_2`.`__ivm_rank` + 1 AS INT)"
unit v
  table `n` int, `d` int
  key `n`
  branch
    from "`v__1` AS `v__1_3_2`"
    reads `v__1_3_2` `c0`, `c1`
    row `n` int = "`v__1_3_2`.`c0`"
    row `arg_1` int = "`v__1_3_2`.`c1`"
  group `n` int
  call `agg_1` = "MAX(`arg_1`)"
  of `__ivm_group`
  out `n` = "`__ivm_group`.`n`"
  out `d` = "`__ivm_group`.`agg_1`";

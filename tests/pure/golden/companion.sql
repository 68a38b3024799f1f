-- sums over dated rows are kept by day as well
SELECT k, sum(x) AS s FROM d GROUP BY k;
unit v__by_day
  stream `k` int, `__ivm_day` date
  key `k`, `__ivm_day`
  branch
    from "`d` AS `d`"
    reads `d` `k`, `x`, `day`
    row `k` int = "`d`.`k`"
    row `arg_1` int = "`d`.`x`"
    row `__ivm_day` date = "CAST(`d`.`day` AS date)"
  group `k` int, `__ivm_day` date
  sums `k` int, `__ivm_day` date, `n_arg_1` bigint, `s_arg_1` decimal(38,0), `__ivm_count` bigint
  call `agg_1` = "SUM(`arg_1`)"
  of `__ivm_group`
  out `k` = "`__ivm_group`.`k`"
  out `__ivm_day` = "`__ivm_group`.`__ivm_day`"
unit v
  table `k` int, `s` bigint
  key `k`
  branch
    from "`d` AS `d`"
    reads `d` `k`, `x`
    row `k` int = "`d`.`k`"
    row `arg_1` int = "`d`.`x`"
  group `k` int
  sums `k` int, `n_arg_1` bigint, `s_arg_1` decimal(38,0), `__ivm_count` bigint
  call `agg_1` = "SUM(`arg_1`)"
  of `__ivm_group`
  out `k` = "`__ivm_group`.`k`"
  out `s` = "`__ivm_group`.`agg_1`";

-- rows of a join hold from the latest of their days
SELECT d.k, f.x FROM d JOIN d AS f ON d.k = f.k;
unit v__by_day
  table `k` int, `x` int, `__ivm_day` date
  branch
    from "`d` AS `d`, `d` AS `f`"
    reads `d` `k`, `day`
    reads `f` `k`, `x`, `day`
    where "`d`.`k` = `f`.`k`"
    row `k` int = "`d`.`k`"
    row `x` int = "`f`.`x`"
    row `__ivm_day` date = "CASE WHEN CAST(`d`.`day` AS date) IS NULL OR CAST(`f`.`day` AS date) IS NULL THEN NULL ELSE GREATEST(CAST(`d`.`day` AS date), CAST(`f`.`day` AS date)) END"
unit v
  table `k` int, `x` int
  branch
    from "`d` AS `d`, `d` AS `f`"
    reads `d` `k`
    reads `f` `k`, `x`
    where "`d`.`k` = `f`.`k`"
    row `k` int = "`d`.`k`"
    row `x` int = "`f`.`x`";

-- without dates there is no companion
SELECT a, sum(b) AS s FROM r GROUP BY a;
unit v
  table `a` int, `s` bigint
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
  out `a` = "`__ivm_group`.`a`"
  out `s` = "`__ivm_group`.`agg_1`";

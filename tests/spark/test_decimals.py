"""Sums and averages of decimals of every width are Spark's.

They are kept as sums; where one overflows, the view is computed in full, and fails where Spark does.
"""

from __future__ import annotations

import pytest

from ivm.plan.nodes import Call, Reduce
from ivm.rewrite.accumulators import accumulators, result_sql
from ivm.sql.calls import exact_average, wide
from tests.scenes import NIGHTLY

pytestmark = pytest.mark.spark

#: Widths on both sides of each bound.
TYPES = [
    (5, 2),
    (15, 2),
    (20, 10),
    (20, 15),
    (22, 13),
    (22, 14),
    (23, 4),
    (27, 0),
    (27, 10),
    (27, 27),
    (28, 6),
    (28, 0),
    (32, 4),
    (38, 0),
    (38, 10),
    (38, 37),
    (38, 38),
]


def largest(precision, scale):
    digits = "9" * precision
    return f"{digits[: precision - scale] or '0'}.{digits[:scale]}" if scale else digits


def few(precision, scale):
    """A value of which sums of some rows stay in range, with digits at both ends."""
    whole = (
        "1" + "0" * max(precision - scale - 7, 0) if precision - scale > 1 else "0"
    )  # an average has up to four digits less before the point
    return f"{whole}.{'0' * (scale - 1)}7" if scale else whole


def test_sums_and_averages_of_all_widths(lake):
    columns = [f"d_{p}_{s}" for p, s in TYPES]
    lake.table(
        "t",
        f"g int, n int, {', '.join(f'{c} decimal({p},{s})' for c, (p, s) in zip(columns, TYPES, strict=True))}",
        rows=0,
    )
    summed, averaged, few_digits = (
        [c for c, t in zip(columns, TYPES, strict=True) if t[0] <= 27],
        [c for c, (p, s) in zip(columns, TYPES, strict=True) if 12 <= p <= 22 and s <= 13],
        [c for c, (p, _) in zip(columns, TYPES, strict=True) if p < 12],  # Spark's optimizer averages them in doubles
    )
    views = {
        "sums": f"SELECT g, {', '.join(f'sum({c}) AS {c}' for c in summed)} FROM t GROUP BY g",
        "averages": f"SELECT {', '.join(f'avg({c}) AS {c}' for c in averaged)} FROM t",
        "narrow_averages": f"SELECT {', '.join(f'avg({c}) AS {c}' for c in few_digits)} FROM t",
        "wide_sums": f"SELECT {', '.join(f'sum({c}) AS {c}' for c in columns[:-1] if c not in summed)} FROM t",
        "last_sum": f"SELECT sum({columns[-1]}) AS {columns[-1]} FROM t",
        "wide_averages": (
            f"SELECT g, {', '.join(f'avg({c}) AS {c}' for c in columns if c not in averaged + few_digits)} "
            "FROM t GROUP BY g"
        ),
        "tried": f"SELECT {', '.join(f'try_sum({c}) AS s_{c}, try_avg({c}) AS a_{c}' for c in columns)} FROM t",
    }
    pipe = lake.pipeline(views, mode="incremental")

    def insert(n, value):
        lake.spark.sql(
            f"INSERT INTO {lake.ref('t')} "
            f"SELECT {n} % 3, {n}, {', '.join(f'CAST({value(p, s)!r} AS decimal({p},{s}))' for p, s in TYPES)}"
        )

    for n in range(4):
        insert(n, few)
    assert lake.differences(pipe) == {}
    insert(4, lambda p, s: "-" + few(p, s))
    insert(5, lambda p, s: few(p, s)[:-1] + "3")
    assert lake.differences(pipe) == {}
    lake.spark.sql(f"UPDATE {lake.ref('t')} SET g = 1 WHERE n = 2")
    lake.spark.sql(f"DELETE FROM {lake.ref('t')} WHERE n = 0")
    assert lake.differences(pipe) == {}
    assert [n for n, c in pipe.context.compiled.items() if c.program.units[-1].reduce.linear] == [
        "sums",
        "averages",
        "wide_sums",
    ]


def test_all_digits_of_deleted_values_are_taken_back(lake):
    """Spark 4.2 negates decimals by an arithmetic that keeps 34 digits."""
    lake.table("t", "g int, v decimal(38,10)", rows=0)
    pipe = lake.pipeline({"v": "SELECT g, sum(v) AS s FROM t GROUP BY g"}, mode="incremental")
    lake.spark.sql(
        f"INSERT INTO {lake.ref('t')} VALUES (1, 12345678901234567890123456.7890123457), (1, 0.0000000001), "
        "(2, -12345678901234567890123456.7890123457), (2, 5)"
    )
    assert lake.differences(pipe) == {}
    lake.spark.sql(f"DELETE FROM {lake.ref('t')} WHERE abs(v) > 100")
    assert pipe.refresh().views["v"].strategy == "incremental"
    assert lake.differences(pipe) == {}


def test_a_sum_that_overflows_fails_and_is_right_when_it_fits_again(lake):
    lake.table("t", "g int, v decimal(38,10), w decimal(28,0)", rows=0)
    views = {
        "total": "SELECT sum(v) AS s FROM t",
        "by_group": "SELECT g, sum(v) AS s, count(v) AS n FROM t GROUP BY g",
        "tried": "SELECT g, try_sum(v) AS s FROM t GROUP BY g",
        "narrower": "SELECT g, sum(w) AS s, avg(w) AS a FROM t GROUP BY g",
        "cast": "SELECT CAST(sum(v) AS decimal(29,1)) AS s FROM t",
    }
    pipe = lake.pipeline(views)
    high = "9999999999999999999999999990.9999999999"
    lake.spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, {high}, {largest(28, 0)}), (2, 1.5, 2)")
    assert lake.differences(pipe) == {}
    lake.spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, {high}, {largest(28, 0)}), (2, 1.0000000001, -3)")
    report = pipe.refresh()
    assert {n: "overflow" in v.error.lower() for n, v in report.views.items() if v.error} == {
        "total": True,
        "by_group": True,
        "cast": True,
    }
    assert pipe.verify("tried")
    assert pipe.verify("narrower")
    lake.spark.sql(f"DELETE FROM {lake.ref('t')} WHERE g = 1 AND v > 0")
    lake.spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, -{high}, 0)")
    assert lake.differences(pipe) == {}
    assert {r.g for r in pipe.read("by_group").collect()} == {1, 2}
    # Sums of 38 digits are too wide to be added to. Where they have less again, a refresh is incremental again.
    lake.spark.sql(f"DELETE FROM {lake.ref('t')} WHERE abs(v) > 10")
    assert lake.differences(pipe) == {}
    lake.spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 2.5, 3), (3, -0.0000000001, 1)")
    report = pipe.refresh()
    assert {n: v.strategy for n, v in report.views.items()} == dict.fromkeys(views, "incremental")
    assert lake.differences(pipe) == {}


def test_where_an_overflow_gives_null_wide_sums_are_evaluated_anew(lake):
    lake.table("t", "g int, v decimal(38,10)", rows=0)
    high = "9999999999999999999999999990.9999999999"
    views = {"by_group": "SELECT g, sum(v) AS s FROM t GROUP BY g", "total": "SELECT sum(v) AS s FROM t"}
    lake.spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, {high}), (2, 1.5)")
    pipe = lake.pipeline(views)
    assert lake.differences(pipe) == {}
    assert all(c.program.units[-1].reduce.linear for c in pipe.context.compiled.values())
    before = lake.spark.conf.get("spark.sql.ansi.enabled")
    lake.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for statement in (f"INSERT INTO {{}} VALUES (1, {high}), (2, 2)", "DELETE FROM {} WHERE g = 1 AND v > 0"):
            lake.spark.sql(statement.format(lake.ref("t")))
            pipe = lake.pipeline(views)
            assert lake.differences(pipe) == {}
            assert not any(c.program.units[-1].reduce.linear for c in pipe.context.compiled.values())
            assert [r.s for r in pipe.read("by_group").collect() if r.g == 1] in ([None], [])
    finally:
        lake.spark.conf.set("spark.sql.ansi.enabled", before)


def test_the_average_of_accumulators_is_sparks_own(spark):
    """Widths whose averages are kept as sums (at night every one), at their ends and at ties of the last digit."""
    kept = [(p, s) for p in range(1, 39) for s in range(p + 1) if exact_average(f"decimal({p},{s})")]
    assert max(kept) == (22, 13)
    assert not any(wide(f"decimal({p},{s})") for p, s in kept)

    statements = []
    for p, s in kept if NIGHTLY else kept[:: len(kept) // 20] + kept[-7:]:
        type_ = f"decimal({p},{s})"
        call = Call("agg_1", "AVG(`x`)", "avg", "x", type_)
        count, total = accumulators(Reduce((), (call,)))
        unit = largest(p, s)
        for rows in ([unit] * 7, [f"-{unit}"] * 3, [unit, unit, f"-{unit}"], [unit, *["0"] * 7]):
            values = ", ".join(f"(CAST('{v}' AS {type_}))" for v in rows)
            own = result_sql(call, {count.name: count.name, total.name: total.name})
            kept_rows = (
                f"SELECT {count.over_rows()} AS {count.name}, {total.over_rows()} AS {total.name}, avg(x) AS spark "
                f"FROM VALUES {values} AS t(x)"
            )
            statements.append(
                f"SELECT '{type_}' AS type, CAST({own} AS string) AS own, CAST(spark AS string) AS spark "
                f"FROM ({kept_rows})"
            )
    assert [r for r in spark.sql(" UNION ALL ".join(statements)).collect() if r.own != r.spark or r.own is None] == []

"""Published variants of TPC-H queries on the in-process operators, each relation loaded from empty in logical batches.

    q01, q13        count against count_total                                   (McSherry 2017-05-06)
    q15, +, ++      the largest revenue in one, two and four levels             (McSherry 2017-04-24)
    q04, q18        with the output of distinct or count arranged twice, or its arrangement reused (+)

All variants of a query must end with the same rows at every batch size, and these equal one evaluation of the whole.

    python -m benchmarks.streams [--data FOLDER] [--batch 1000 --batch 10000 ...] [--query q15+ ...]
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from benchmarks import report
from benchmarks.loading import batches, columns, generated, texts
from ivm.zset.arrays import ZSet, grouped
from ivm.zset.streams import Count, CountTotal, General, IndexedJoin, Integrate, Reduce

Batch = dict[str, dict[str, Any]]
#: Makes an incremental program: a function of one batch that returns the delta of its result.
Program = Callable[[], Callable[[Batch], ZSet]]
BATCHES = (1_000, 10_000, 100_000, 1_000_000)
PUBLISHED = {
    "q01 count": (4.04, 4.24, 5.10, None),
    "q01 count_total": (1.48, 1.42, 1.61, None),
    "q13 count": (6.18, 4.47, 3.83, None),
    "q13 count_total": (2.24, 1.66, 1.52, None),
    "q15": (35.58, 29.46, 31.43, 41.29),
    "q15+": (2.84, 1.32, 0.77, 0.85),
    "q15++": (1.76, 0.91, 0.48, 0.39),
    "q04": (13.34, 7.64, 4.46, 2.86),
    "q04+": (12.47, 6.98, 4.09, 2.62),
    "q18": (38.28, 23.57, 16.99, 12.04),
    "q18+": (35.24, 21.64, 14.92, 10.30),
}


def day(text: str) -> int:
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days


def q01(operator: type) -> Program:
    def made() -> Callable[[Batch], ZSet]:
        count = operator(["key"], ["quantity", "price", "discounted", "charged", "discount", "n"])

        def step(batch: Batch) -> ZSet:
            c = batch["lineitem"]
            there = c["l_shipdate"] <= day("1998-09-01")
            flag, status, quantity, price, discount, tax = (
                c[n][there]
                for n in ("l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax")
            )
            less = price * (100 - discount)
            sums = np.stack([quantity, price, less, less * (100 + tax), discount, np.ones_like(price)], axis=1)
            return count.step(ZSet({"key": flag * 4 + status}, sums))

        return step

    return made


def q13(operator: type) -> Program:
    def made() -> Callable[[Batch], ZSet]:
        first, second = operator(["customer"], ["orders"]), operator(["orders"], ["customers"])

        def step(batch: Batch) -> ZSet:
            orders = batch["orders"]
            keys = np.concatenate([batch["customer"]["c_custkey"], orders["o_custkey"][orders["plain"] == 1]])
            return second.step(first.step(ZSet({"customer": keys})).map(lambda c: {"orders": c["orders"] - 1}))

        return step

    return made


def largest(z: ZSet) -> ZSet:
    """The rows with the largest difference of each `part`."""
    z = z.consolidated()
    if len(z) == 0:
        return z
    order, starts = grouped([z.columns["part"]], len(z))
    most = np.maximum.reduceat(z.diffs[order], starts)
    sizes = np.diff(np.append(starts, len(z)))
    return z.taken(order[z.diffs[order] == np.repeat(most, sizes)])


def q15(divisors: tuple[int, ...]) -> Program:
    """The suppliers with the largest revenue, as differences; a level for each divisor (the last one has one part)."""

    def made() -> Callable[[Batch], ZSet]:
        levels = [Reduce(["part"], largest) for _ in divisors]

        def step(batch: Batch) -> ZSet:
            c = batch["lineitem"]
            there = (c["l_shipdate"] >= day("1996-01-01")) & (c["l_shipdate"] < day("1996-04-01"))
            revenue = c["l_extendedprice"][there] * (100 - c["l_discount"][there])
            delta = ZSet({"supplier": c["l_suppkey"][there]}, revenue)
            for level, divisor in zip(levels, divisors, strict=True):
                delta = level.step(
                    delta.map(lambda c, d=divisor: {"part": c["supplier"] % d, "supplier": c["supplier"]})
                )  # type: ignore[misc]
            return delta.map(lambda c: {"supplier": c["supplier"]})

        return step

    return made


def q04(reuse: bool) -> Program:
    def made() -> Callable[[Batch], ZSet]:
        late: General[ZSet] = General(["order"], lambda z: z.distinct())
        join = IndexedJoin(["order"], late.output if reuse else None)
        count = CountTotal(["priority"], ["n"])

        def step(batch: Batch) -> ZSet:
            c, o = batch["lineitem"], batch["orders"]
            found = late.step(ZSet({"order": c["l_orderkey"][c["l_commitdate"] < c["l_receiptdate"]]}))
            there = (o["o_orderdate"] >= day("1993-07-01")) & (o["o_orderdate"] < day("1993-10-01"))
            joined = join.step(ZSet({"order": o["o_orderkey"][there], "priority": o["o_orderpriority"][there]}), found)
            return count.step(joined.map(lambda c: {"priority": c["priority"]}))

        return step

    return made


def q18(reuse: bool) -> Program:
    def made() -> Callable[[Batch], ZSet]:
        quantities = Count(["order"], ["quantity"])
        orders = IndexedJoin(["order"], quantities.output if reuse else None)
        customers = IndexedJoin(["customer"])

        def large(z: ZSet) -> ZSet:
            return z.filter(lambda c: c["quantity"] > 30_000)

        def step(batch: Batch) -> ZSet:
            c, o = batch["lineitem"], batch["orders"]
            counts = quantities.step(ZSet({"order": c["l_orderkey"]}, c["l_quantity"]))
            named = {"order": "o_orderkey", "customer": "o_custkey", "day": "o_orderdate", "price": "o_totalprice"}
            ordered = ZSet({n: o[c] for n, c in named.items()})
            joined = large(orders.step(ordered, counts)) if reuse else orders.step(ordered, large(counts))
            return customers.step(joined, ZSet({"customer": batch["customer"]["c_custkey"]}))

        return step

    return made


PROGRAMS: dict[str, Program] = {
    "q01 count": q01(Count),
    "q01 count_total": q01(CountTotal),
    "q13 count": q13(Count),
    "q13 count_total": q13(CountTotal),
    "q15": q15((1,)),
    "q15+": q15((100, 1)),
    "q15++": q15((1000, 100, 10, 1)),
    "q04": q04(reuse=False),
    "q04+": q04(reuse=True),
    "q18": q18(reuse=False),
    "q18+": q18(reuse=True),
}
_LINE = (
    "l_orderkey",
    "l_suppkey",
    "l_quantity",
    "l_extendedprice",
    "l_discount",
    "l_tax",
    "l_returnflag",
    "l_linestatus",
    "l_shipdate",
)
READS = {
    "q01": {"lineitem": _LINE[2:]},
    "q13": {"customer": ("c_custkey",), "orders": ("o_custkey", "plain")},
    "q15": {"lineitem": ("l_suppkey", "l_extendedprice", "l_discount", "l_shipdate")},
    "q04": {
        "lineitem": ("l_orderkey", "l_commitdate", "l_receiptdate"),
        "orders": ("o_orderkey", "o_orderdate", "o_orderpriority"),
    },
    "q18": {
        "lineitem": ("l_orderkey", "l_quantity"),
        "orders": ("o_orderkey", "o_custkey", "o_orderdate", "o_totalprice"),
        "customer": ("c_custkey",),
    },
}


def relations(folder: Path) -> Batch:
    """All columns that the programs read, as integers."""
    wanted: dict[str, set[str]] = {}
    for reads in READS.values():
        for name, names in reads.items():
            wanted.setdefault(name, set()).update(names)
    wanted["orders"].discard("plain")
    found = {name: columns(folder, name, sorted(names)) for name, names in wanted.items()}
    plain = pc.invert(pc.match_like(texts(folder, "orders", "o_comment"), "%special%requests%"))
    found["orders"]["plain"] = plain.to_numpy(zero_copy_only=False).astype("int64")
    return found


def run(program: Program, data: Batch, size: int) -> tuple[float, ZSet]:
    """Seconds of all steps, without the making of batches, and the accumulated result."""
    step, result, seconds = program(), Integrate[ZSet](), 0.0
    for batch in batches(data, size):
        started = time.perf_counter()
        delta = step(batch)
        seconds += time.perf_counter() - started
        result.step(delta)
    assert result.total is not None
    return seconds, result.total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="TPC-H relations as Parquet files; those of the benchmark tpch at SF1 by default"
    )
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--query", action="append", choices=list(PROGRAMS))
    asked = parser.parse_args()
    whole = relations(asked.data or generated())
    sizes = asked.batch or list(BATCHES)
    found: dict[str, Any] = {}
    for name in asked.query or PROGRAMS:
        query = name.split()[0].rstrip("+")
        data = {r: {c: whole[r][c] for c in names} for r, names in READS[query].items()}
        updates = sum(len(next(iter(c.values()))) for c in data.values())
        expected = run(PROGRAMS[query if query in PROGRAMS else f"{query} count_total"], data, updates)[1].rows()
        seconds = {}
        for size in sizes:
            seconds[str(size)], result = run(PROGRAMS[name], data, size)
            if result.rows() != expected:
                raise SystemExit(f"{name} in batches of {size:,} gives other rows than one batch of everything")
        best = min(seconds.values())
        found[name] = {
            "updates": updates,
            "seconds": {s: round(v, 3) for s, v in seconds.items()},
            "peak_per_s": round(updates / best),
            "rows": len(expected),
        }
        print(
            f"{name:16} "
            + "  ".join(f"{int(s):>9,}: {v:7.2f} s" for s, v in seconds.items())
            + f"   {updates / best / 1e6:.2f} M/s",
            flush=True,
        )
    published = {n: p for n, p in PUBLISHED.items() if n in found}
    print(report.write("streams", {"batches": sizes, "published_seconds": published, "programs": found}))


if __name__ == "__main__":
    main()

"""Employees joined with their salaries, batch by batch: full, (indexed) incremental, pandas, pydbsp, and our engine.

Setting and published figures: "Streaming on the GPU with DBSP": 10,000 rows in batches of 500 (full 20.1 s,
incremental 3.0, indexed 0.16 to 0.25, pandas full 0.03 to 0.05), and 10,000,000 in batches of 100,000 (pandas full
98 s, incremental pandas 20 s, cuDF 27 s). Rows come in random order of their ids: sorted ids make pandas take a fast
path.

    python -m benchmarks.employees --rows 10000 --batch 500 [--pydbsp PYTHON] [--engine]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import report
from ivm.zset.arrays import ZSet
from ivm.zset.streams import IndexedJoin, Join

_NAMES = np.array([b"kristjan", b"mark", b"mike"])
Batch = tuple[dict[str, Any], dict[str, Any]]

_PYDBSP = """
import json, sys, time
from pydbsp.stream import Stream, StreamHandle
from pydbsp.zset import ZSet, ZSetAddition
from pydbsp.indexed_zset.functions.bilinear import join_with_index
from pydbsp.indexed_zset.operators.linear import LiftedIndex
from pydbsp.stream.operators.bilinear import Incrementalize2
from pydbsp.zset.functions.bilinear import join
batches = json.load(open(sys.argv[1]))
indexed = sys.argv[2] == "indexed"
group = ZSetAddition()
one, two = Stream(group), Stream(group)
h1, h2 = StreamHandle(lambda: one), StreamHandle(lambda: two)
made = lambda left, right: (left[0], left[1], right[1])
if indexed:
    from pydbsp.indexed_zset import IndexedZSetAddition
    i1, i2 = LiftedIndex(h1, lambda x: x[0]), LiftedIndex(h2, lambda x: x[0])
    joined = lambda l, r: join_with_index(l, r, lambda k, a, b: made(a, b))
    op = Incrementalize2(i1.output_handle(), i2.output_handle(), joined, group)
else:
    op = Incrementalize2(h1, h2, lambda l, r: join(l, r, lambda a, b: a[0] == b[0], made), group)
rows, seconds = 0, []
for employees, salaries in batches:
    one.send(ZSet({tuple(e): 1 for e in employees})); two.send(ZSet({tuple(s): 1 for s in salaries}))
    started = time.perf_counter()
    if indexed: i1.step(); i2.step()
    op.step()
    seconds.append(time.perf_counter() - started)
    rows += len(op.output().latest().inner)
print(json.dumps({"rows": rows, "seconds": seconds}))
"""


@dataclass(frozen=True)
class Setting:
    """So many rows of each side in batches of `size`, ids in random order; only the `first` of them, if given."""

    rows: int
    size: int
    first: int | None = None

    @property
    def until(self) -> int:
        return min(self.rows, self.size * self.first) if self.first else self.rows

    def _ids(self) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
        random = np.random.default_rng(7)
        return random, random.permutation(self.rows), random.permutation(self.rows)

    def batches(self) -> Iterator[Batch]:
        """(employees, salaries) by batch."""
        random, left, right = self._ids()
        for start in range(0, self.until, self.size):
            ids, others = left[start : start + self.size], right[start : start + self.size]
            names = np.char.add(_NAMES[random.integers(0, 3, len(ids))], ids.astype("S8"))
            yield {"id": ids, "name": names}, {"id": others, "salary": random.integers(0, 100_000, len(others))}

    def joined(self) -> int:
        """The rows of the join at the end."""
        _, left, right = self._ids()
        return len(np.intersect1d(left[: self.until], right[: self.until]))


def measured(setting: Setting, step: Callable[[Batch], int]) -> dict[str, Any]:
    """Seconds by batch of a step that returns how many rows its result has gained (or has, if it is a full one)."""
    seconds, found = [], 0
    for batch in setting.batches():
        started = time.perf_counter()
        found = step(batch)
        seconds.append(time.perf_counter() - started)
    return {"seconds": round(sum(seconds), 3), "by_batch": [round(s, 4) for s in seconds], "rows": found}


def pandas_full(setting: Setting) -> dict[str, Any]:
    kept: list[pd.DataFrame] = [pd.DataFrame(), pd.DataFrame()]

    def step(batch: Batch) -> int:
        for i in (0, 1):
            kept[i] = pd.concat([kept[i], pd.DataFrame(batch[i])], ignore_index=True)
        return len(kept[0].merge(kept[1], on="id"))

    return measured(setting, step)


def process_full(setting: Setting) -> dict[str, Any]:
    kept: list[ZSet | None] = [None, None]

    def step(batch: Batch) -> int:
        for i in (0, 1):
            delta, before = ZSet(batch[i]), kept[i]
            kept[i] = delta if before is None else before + delta
        one, two = kept
        assert one is not None
        assert two is not None
        return len(one.join(two, ["id"]))

    return measured(setting, step)


def process_incremental(setting: Setting, indexed: bool) -> dict[str, Any]:
    operator = IndexedJoin(["id"]) if indexed else Join(["id"])
    found = 0

    def step(batch: Batch) -> int:
        nonlocal found
        found += len(operator.step(ZSet(batch[0]), ZSet(batch[1])))
        return found

    return measured(setting, step)


def pydbsp(setting: Setting, python: str, kind: str) -> dict[str, Any]:
    """The same batches in another interpreter, which has pydbsp."""
    listed = [
        (
            [[int(i), n.decode()] for i, n in zip(e["id"], e["name"], strict=True)],
            [[int(i), int(s)] for i, s in zip(a["id"], a["salary"], strict=True)],
        )
        for e, a in setting.batches()
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(listed, file)
        file.flush()
        done = subprocess.run([python, "-c", _PYDBSP, file.name, kind], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return {
        "seconds": round(sum(found["seconds"]), 3),
        "by_batch": [round(s, 4) for s in found["seconds"]],
        "rows": found["rows"],
    }


def engine(setting: Setting, hint: str, mode: str) -> dict[str, Any]:
    """The join as a view over two Delta tables, one refresh a batch; `hint` goes into its SELECT."""
    import pyarrow as pa
    from deltalake import write_deltalake

    import ivm
    from ivm.session import get_session

    spark = get_session()
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{n}" for n in ("employees", "salaries")]
        for path, value in zip(paths, ("name string", "salary bigint"), strict=True):
            spark.sql(
                f"CREATE TABLE delta.`{path}` (id bigint, {value}) "
                "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
            )
        pipe = ivm.Pipeline("employees", spark, Path(folder) / "root")
        for name, path in zip(("employees", "salaries"), paths, strict=True):
            pipe.source(name, path, primary_key=["id"])
        pipe.view(
            "paid", f"SELECT {hint} e.id, e.name, s.salary FROM employees e JOIN salaries s ON e.id = s.id", mode=mode
        )
        pipe.refresh()

        seconds = []
        for batch in setting.batches():
            for path, columns in zip(paths, batch, strict=True):
                table = pa.table({n: v.astype(str) if n == "name" else v for n, v in columns.items()})
                write_deltalake(path, table, mode="append")
            started = time.perf_counter()
            pipe.refresh()
            seconds.append(time.perf_counter() - started)
        found = pipe.read("paid").count()
    return {"seconds": round(sum(seconds), 3), "by_batch": [round(s, 4) for s in seconds], "rows": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--pydbsp", help="an interpreter that has pydbsp (Python 3.12 or later)")
    parser.add_argument(
        "--engine",
        action="store_true",
        help="also as a view over Delta tables: full, incremental, and with both tables arranged",
    )
    parser.add_argument("--first", type=int, help="only the first so many batches; seconds are of these")
    parser.add_argument("--only", action="append", help="these variants; the kept figures of the others stay")
    asked = parser.parse_args()
    setting = Setting(asked.rows, asked.batch, asked.first)
    wanted = setting.joined()
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "pandas full": lambda: pandas_full(setting),
        "full": lambda: process_full(setting),
        "incremental": lambda: process_incremental(setting, indexed=False),
        "indexed incremental": lambda: process_incremental(setting, indexed=True),
    }
    if asked.pydbsp:
        runs["pydbsp incremental"] = lambda: pydbsp(setting, asked.pydbsp, "plain")
        runs["pydbsp indexed"] = lambda: pydbsp(setting, asked.pydbsp, "indexed")
    if asked.engine:
        runs["view over Delta, full"] = lambda: engine(setting, "", "full")
        runs["view over Delta"] = lambda: engine(setting, "", "incremental")
        hint = "/*+ ARRANGE(employees, id), ARRANGE(salaries, id) */"
        runs["view over Delta, arranged"] = lambda: engine(setting, hint, "incremental")
    name = f"employees_{asked.rows}" + (f"_first_{asked.first}" if asked.first else "")
    found: dict[str, Any] = report.read(name).get("runs", {}) if asked.only else {}
    for variant, run in runs.items():
        if asked.only and variant not in asked.only:
            continue
        found[variant] = run()
        print(f"{variant:22} {found[variant]['seconds']:9.3f} s   {found[variant]['rows']:,} rows", flush=True)
        if found[variant]["rows"] != wanted:
            raise SystemExit(f"{variant} found {found[variant]['rows']:,} rows, not {wanted:,}")
    print(report.write(name, {"rows": asked.rows, "batch": asked.batch, "first": asked.first, "runs": found}))


if __name__ == "__main__":
    main()

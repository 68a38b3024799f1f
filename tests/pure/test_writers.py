"""Several processes commit to one table of ours on an S3 server: what each was told is there, once, and nothing else.

Every writer goes through the verbs by which a refresh commits (`ivm.lake.native`), again and again under new
transactions; where it is refused, it tries the same one again. What must have come of all is told by the log's order.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ivm.errors import ConcurrentRefreshError
from ivm.lake import bags, native
from ivm.names import WEIGHT
from ivm.storage.location import Location

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
WRITERS = 4
#: Of each writer.
COMMITS = int(os.environ.get("IVM_WRITERS_COMMITS", "60" if os.environ.get("IVM_NIGHTLY") == "1" else "4"))
SCHEMA = pa.schema([("writer", pa.int64()), ("n", pa.int64()), ("part", pa.int64())])
CONFIGURATION = {"delta.checkpointInterval": "10"}


def rows(writer: int, n: int) -> pa.Table:
    """What a writer's n-th transaction adds: rows that no other one has."""
    return pa.table({"writer": [writer] * 3, "n": [n] * 3, "part": [0, 1, 2]}, schema=SCHEMA)


def write(table: str, writer: int, kinds: list[str]) -> list[Any]:
    """Make COMMITS transactions: appends, overwrites, and merges that replace what the last append added.

    Returns [n, kind, refused attempts] of each, when it was told to be done.
    """
    done, own = [], []
    for n in range(1, COMMITS + 1):
        kind = kinds[(n + writer) % len(kinds)]
        kind = "append" if kind == "merge" and not own else kind
        refused = 0
        while True:
            try:
                assert attempt(table, writer, n, kind, own), "a transaction that was refused is not there"
                break
            except ConcurrentRefreshError:
                refused += 1
        done.append([n, kind, refused])
        own = [n] if kind != "merge" else []
    return done


def attempt(table: str, writer: int, n: int, kind: str, own: list[int]) -> bool:
    app = f"writer/{writer}"
    if kind == "append":
        return native.append(table, rows(writer, n), app, n, CONFIGURATION)
    if kind == "overwrite":
        return native.overwrite(table, rows(writer, n), app, n, CONFIGURATION)
    gone, new = rows(writer, own[0]), rows(writer, n)
    weights = pa.array([-1] * gone.num_rows + [1] * new.num_rows, pa.int64())
    return bags.merge(table, pa.concat_tables([gone, new]).append_column(WEIGHT, weights), ["writer", "n"], app, n)


def commits(table: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The versions of a table's log and what each holds."""
    for file in sorted((Location.of(table) / "_delta_log").list()):
        if file.name.endswith(".json"):
            yield int(file.stem), [json.loads(line) for line in file.read().decode().splitlines()]


@pytest.mark.parametrize("kinds", [["append", "merge"], ["append", "merge", "overwrite", "append"]])
def test_each_reported_commit_is_there_once_and_no_other(fast_s3, kinds):
    table = f"{fast_s3}/t"
    assert native.append(table, SCHEMA.empty_table(), "first", 1, CONFIGURATION)
    command = [sys.executable, "-m", "tests.pure.test_writers", table]
    processes = [
        subprocess.Popen([*command, str(i), ",".join(kinds)], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
        for i in range(WRITERS)
    ]
    said = {i: json.loads(process.communicate()[0]) for i, process in enumerate(processes)}
    reported = {(i, n): kind for i, done in said.items() for n, kind, _ in done}
    assert len(reported) == WRITERS * COMMITS

    versions, order = [], []
    for version, actions in commits(table):
        versions.append(version)
        order += [(a["txn"]["appId"], a["txn"]["version"]) for a in actions if "txn" in a]
    assert versions == list(range(1 + len(reported)))  # one commit for each report, and the first
    made = [(int(app.removeprefix("writer/")), n) for app, n in order if app != "first"]
    assert Counter(made) == Counter(reported.keys())
    held = Counter(zip(*native.read(native.table(table), SCHEMA.names).to_pydict().values(), strict=True))
    if "overwrite" not in kinds:
        assert held == left(made, reported)
    assert set(held.values()) <= {1}
    last = max((made.index(m) for m, kind in reported.items() if kind == "overwrite"), default=0)
    for writer, n in made[last:]:  # what came after the last overwrite is there, unless its writer replaced it
        kept = {r for r in held if r[:2] == (writer, n)}
        replaced = reported.get((writer, n + 1)) == "merge" and (writer, n + 1) in made[last:]
        assert len(kept) == (0 if replaced else 3), (writer, n, reported[writer, n])
    print(f"{len(reported)} commits, {sum(r for done in said.values() for *_, r in done)} attempts were refused")


def left(made: list[tuple[int, int]], reported: dict[tuple[int, int], str]) -> Counter[tuple[int, int, int]]:
    """The rows after these transactions: a merge replaces what its writer added in the one before."""
    bag: Counter[tuple[int, int, int]] = Counter()
    for writer, n in made:
        bag.update((writer, n, part) for part in range(3))
        if reported[writer, n] == "merge":
            bag.subtract((writer, n - 1, part) for part in range(3))
    return +bag


if __name__ == "__main__":
    print(json.dumps(write(sys.argv[1], int(sys.argv[2]), sys.argv[3].split(","))))

"""Random views, random changes and random faults together: after each recovery the views are right.

DuckDB stands in Spark's place. A failing case is shrunk, and printed whole by hypothesis. IVM_FAULT_CASES sets how many
are tried (nightly: 1,000), and the counts are then kept in build/nightly; `tests/nightly/random_faults.py` does the
same with typed views on Spark.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ivm.testing.faults import Effect, Fault, Injector, Moment, Trouble
from ivm.testing.recovery import REFRESHES, Scene, differences, leftovers, said
from tests.nightly.counts import Counts
from tests.pure.duck_session import WRITES, DuckSession
from tests.pure.views import TABLES, views

pytestmark = pytest.mark.slow

CASES = int(os.environ.get("IVM_FAULT_CASES", "1000" if os.environ.get("IVM_NIGHTLY") == "1" else "5"))

COUNTS = Counts("random_faults_duckdb", seed=0, minutes=0)


@pytest.fixture(scope="module", autouse=True)
def counts():
    yield
    if "IVM_FAULT_CASES" in os.environ:
        COUNTS.store(Path("build/nightly") / f"random_faults_duckdb_{os.getpid()}.json")


value = st.one_of(st.none(), st.integers(0, 3))
rows = st.lists(st.tuples(value, value), min_size=1, max_size=5)
#: Few actions have 25 writes, so that the early ones are the likely ones.
faults = st.builds(
    Fault,
    st.sampled_from(Effect),
    st.sampled_from(Moment),
    st.one_of(st.integers(1, 4), st.integers(1, 8), st.integers(1, 25)),
    st.sampled_from(Trouble),
)
#: (what is done, with which fault, what changes before it: a table and rows to insert, or a value of its first column
#: to delete; what somebody else does to which table before it)
steps = st.tuples(
    st.sampled_from(("refresh", "refresh", "refresh", "compact", "backfill")),
    faults,
    st.sampled_from(TABLES),
    st.one_of(rows, st.integers(0, 3)),
    st.sampled_from(("", "", "optimize", "vacuum")),
    st.sampled_from(("root/v", "root/over", "sources/r", "sources/s")),
)


@settings(
    max_examples=CASES,
    derandomize="IVM_FAULT_CASES" not in os.environ,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    sql=views(depth=2),
    first=st.lists(rows, min_size=3, max_size=3),
    batches=st.lists(st.lists(steps, min_size=2, max_size=8), min_size=1, max_size=2),
)
def test_any_view_survives_any_faults(sql, first, batches):
    folder = Path(tempfile.mkdtemp(prefix="ivm_faults_"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        lake = Scene(
            DuckSession(),
            folder,
            {"v": sql, "over": "SELECT x, count(*) AS n FROM v GROUP BY x"},
            tuple(t for t, *_ in TABLES),
            writes=WRITES,
        )
        for table, some in zip(TABLES, first, strict=True):
            write_deltalake(
                _path(lake, table), _rows(table, some), configuration={"delta.enableChangeDataFeed": "true"}
            )
        told = []
        for batch in batches:
            for action, fault, table, changed, maintenance, maintained in batch:
                if isinstance(changed, int):
                    DeltaTable(_path(lake, table)).delete(f"{table[1]} = {changed}")
                else:
                    write_deltalake(_path(lake, table), _rows(table, changed), mode="append")
                COUNTS.add(maintenance=int(_maintained(lake.folder / maintained, maintenance)))
                with Injector([folder / "root"], [fault], more=WRITES) as injector:
                    text = said(lambda: _act(lake, action))  # noqa: B023 - it is called at once
                struck = bool(injector.struck)
                died = struck and fault.effect is Effect.DIE
                COUNTS.add(kills=int(died), failures=int(struck and not died), unstruck=int(not struck))
                told.append(f"{action}, {fault} ({injector.struck.get(fault, 'not reached')}): {text or 'ok'}")
            _recovered(lake, told)
            COUNTS.add(recoveries=1)
    COUNTS.add(programs=1)
    shutil.rmtree(folder)


def _act(lake: Scene, action: str):
    pipe = lake.pipeline(lake.folder)
    return (
        pipe.compact(keep_epochs=1)
        if action == "compact"
        else pipe.backfill("v")
        if action == "backfill"
        else pipe.refresh()
    )


def _maintained(table: Path, how: str) -> bool:
    """Somebody's OPTIMIZE, or a VACUUM that keeps nothing but the newest version."""
    if not how or not (table / "_delta_log").exists():
        return False
    if how == "optimize":
        DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    return True


def _recovered(lake: Scene, told: list[str]) -> None:
    answers = []
    for _ in range(REFRESHES):
        answers.append(said(lambda: lake.pipeline(lake.folder).refresh()))
        if not answers[-1]:
            break
    pipe = lake.pipeline(lake.folder)
    wrong = [*differences(pipe, lake.recomputed(lake.folder)), *leftovers(pipe)]
    wrong += [f"stuck: {answers}"] if answers[-1] else []
    assert not wrong, (wrong, told)


def _path(lake: Scene, table: tuple[str, str, str]) -> str:
    return str(lake.folder / "sources" / table[0])


def _rows(table: tuple[str, str, str], some: list[tuple[int | None, int | None]]) -> pa.Table:
    return pa.table({name: pa.array([row[i] for row in some], pa.int32()) for i, name in enumerate(table[1:])})

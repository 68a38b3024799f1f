"""Views that are held back beside others that go on: what is kept for the one must neither count nor lack in the other.

DuckDB stands in Spark's place, and a gate that fails the views it is told to.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.errors import ConcurrentRefreshError, StateError
from ivm.names import WEIGHT
from ivm.plan.nodes import EPOCH
from ivm.quality.gate import run_gate
from ivm.refresh.integrity import paths
from ivm.testing.faults import Effect, Fault, Injector, Killed, Moment
from ivm.testing.recovery import Scene, differences, leftovers, said
from tests.pure.duck_session import WRITES, DuckSession
from tests.scenes import CUSTOMERS, FIRST, ORDERS, path

pytestmark = pytest.mark.slow

VIEWS = {
    "totals": "SELECT cust, sum(amount) AS s, count(*) AS n FROM orders GROUP BY cust",
    "names": "SELECT cust, count(*) AS k FROM customers GROUP BY cust",
    "both": "SELECT t.cust, t.s, n.k FROM totals t JOIN names n ON t.cust = n.cust",
    "sizes": "SELECT n, count(*) AS customers FROM totals GROUP BY n",
}


def scene(monkeypatch, tmp_path, views):
    """Views over the first orders and customers, not refreshed yet."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    made = Scene(DuckSession(), tmp_path / "lake", views, ("orders", "customers"), writes=WRITES)
    for name, rows, _ in FIRST:
        add(made, name, *rows)
    return made


@pytest.fixture
def lake(monkeypatch, tmp_path):
    made = scene(monkeypatch, tmp_path, VIEWS)
    assert refreshed(made) == set()
    return made


def add(made, name, *rows):
    schema = {"orders": ORDERS, "customers": CUSTOMERS}[name]
    data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    write_deltalake(path(made, name), data, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def pipeline(made, *failing):
    pipe = made.pipeline(made.folder)
    pipe._gate = lambda: (
        lambda context, plan, outcomes: {o.view: ["it shall fail"] for o in outcomes.values() if o.view in failing}
    )
    return pipe


def refreshed(made, *failing, views=None):
    """The views that a refresh doesn't bring up to date."""
    return {name for name, view in pipeline(made, *failing).refresh(views).views.items() if view.error}


def right_in_the_end(made):
    """Whether a refresh publishes all views, and all of them right."""
    add(made, "orders", (90, 1, 9), (91, 2, 4))
    return refreshed(made) == set() and differences(pipeline(made), made.recomputed(made.folder)) == []


def test_compaction_counts_a_batch_once_beside_one_of_its_epoch_that_is_held(lake):
    add(lake, "orders", (20, 1, 1))
    add(lake, "customers", (9, "iota", "north"), (1, "alias", "west"))
    assert refreshed(lake, "names") == {"names", "both"}
    pipeline(lake).compact(keep_epochs=0)
    add(lake, "customers", (1, "alias", "south"))
    assert right_in_the_end(lake)


def test_compaction_keeps_a_batch_that_a_held_reader_has_yet_to_read(lake):
    add(lake, "customers", (9, "iota", "north"))
    assert refreshed(lake) == set()  # an epoch without the totals, whose batches are then two ranges
    add(lake, "orders", (20, 1, 1))
    assert refreshed(lake, "sizes") == {"sizes"}
    pipeline(lake).compact(keep_epochs=0)
    assert right_in_the_end(lake)


def test_a_reader_that_lags_reads_the_others_as_they_were(lake):
    add(lake, "orders", (20, 1, 1))
    assert refreshed(lake, views=["totals"]) == set()
    add(lake, "customers", (1, "alias", "west"))
    assert pipeline(lake).refresh().views["both"].strategy == "incremental"
    assert differences(pipeline(lake), lake.recomputed(lake.folder)) == []


def test_what_is_released_has_read_the_others_as_they_were_then(lake):
    add(lake, "orders", (20, 1, 1))
    add(lake, "customers", (2, "beta", "west"))
    assert refreshed(lake, "both") == {"both"}
    add(lake, "customers", (1, "alias", "west"), (2, "beta", "south"))
    assert refreshed(lake, views=["names"]) == set()
    assert pipeline(lake).release("both").ok
    assert right_in_the_end(lake)


def test_a_release_takes_along_what_waits_for_nothing_else(lake):
    add(lake, "orders", (20, 1, 1))
    add(lake, "customers", (2, "beta", "west"))
    assert refreshed(lake, "totals", "names") == {"totals", "names", "both", "sizes"}
    assert set(pipeline(lake).release("totals").views) == {"totals", "sizes"}
    assert set(pipeline(lake).release("names").views) == {"names", "both"}
    assert differences(pipeline(lake), lake.recomputed(lake.folder)) == []
    assert right_in_the_end(lake)


def test_a_discard_takes_along_all_that_reads_it(lake):
    add(lake, "orders", (20, 1, 1))
    add(lake, "customers", (2, "beta", "west"))
    assert refreshed(lake, "totals", "names", "both") == {"totals", "names", "both", "sizes"}
    assert "both" in pipeline(lake).discard("names").note
    assert pipeline(lake).release("totals").ok
    assert right_in_the_end(lake)


def test_no_view_is_released_before_what_it_reads(lake):
    add(lake, "orders", (20, 1, 1))
    assert refreshed(lake, "totals", "both") == {"totals", "both", "sizes"}
    with pytest.raises(StateError, match="builds on a batch of 'totals' that was not published"):
        pipeline(lake).release("both")
    assert set(pipeline(lake).release("totals").views) == {"totals", "sizes"}
    assert pipeline(lake).release("both").ok
    assert differences(pipeline(lake), lake.recomputed(lake.folder)) == []


def test_no_view_is_released_over_what_was_planned_anew(lake):
    add(lake, "orders", (20, 1, 1))
    assert refreshed(lake, "totals") == {"totals", "both", "sizes"}
    assert refreshed(lake, views=["totals"]) == set()
    with pytest.raises(StateError, match="builds on a batch of 'totals' that was not published"):
        pipeline(lake).release("both")
    assert right_in_the_end(lake)


def test_an_epoch_that_is_abandoned_takes_nothing_of_what_is_held(lake, monkeypatch):
    add(lake, "orders", (20, 1, 1))
    assert refreshed(lake, "totals") == {"totals", "both", "sizes"}
    with dying(monkeypatch, "ivm.refresh.apply.Apply.run"):
        pipeline(lake).refresh()
    lake.views = {**lake.views, "names": VIEWS["names"].replace("count(*)", "count(name)")}
    assert refreshed(lake, views=["names"]) == set()  # the epoch that was open is abandoned
    assert pipeline(lake).release("totals").ok
    assert differences(pipeline(lake), lake.recomputed(lake.folder)) == []


def test_a_discard_that_dies_leaves_what_is_held_or_nothing(lake, monkeypatch):
    add(lake, "orders", (20, 1, 1))
    assert refreshed(lake, "totals") == {"totals", "both", "sizes"}
    with dying(monkeypatch, "ivm.refresh.epochs.EpochLog.record"):
        pipeline(lake).discard("totals")
    assert pipeline(lake).release("totals").ok
    assert differences(pipeline(lake), lake.recomputed(lake.folder)) == []


@pytest.mark.parametrize(
    "edited",
    [
        "SELECT cust, sum(amount) AS s FROM orders GROUP BY cust HAVING sum(amount) > 15",
        "SELECT cust, sum(amount) AS s, sum(id) AS t FROM orders GROUP BY cust",
        "SELECT cust, max(amount) AS s FROM orders GROUP BY cust HAVING max(amount) > 15",
        "SELECT cust, amount AS s FROM orders",
        "SELECT cust, rand() AS s FROM orders",
    ],
    ids=["as it was", "other sums", "no sums", "no groups", "no program"],
)
def test_compaction_of_an_edited_view_makes_no_batch_count_that_never_did(monkeypatch, tmp_path, edited):
    """What it knows of the view's state is what the state was built by, whatever the view is now."""
    views = {"large": "SELECT cust, sum(amount) AS s FROM orders GROUP BY cust HAVING sum(amount) > 15"}
    made = scene(monkeypatch, tmp_path, views)
    assert refreshed(made) == set()
    add(made, "orders", (90, 9, 9))
    assert refreshed(made, "large") == {"large"}
    with Injector([made.folder / "root"], [Fault(Effect.DIE, Moment.AFTER, 1)], more=WRITES) as discarding:
        said(lambda: pipeline(made).discard("large"))
    assert discarding.struck, "what is in no list any more is still there"
    made.views = {"large": edited}
    for _ in range(2):
        assert [c.error for c in pipeline(made).compact(keep_epochs=0) if c.error] == []
    made.views = views
    assert refreshed(made) == set()
    assert differences(pipeline(made), made.recomputed(made.folder)) == []
    assert right_in_the_end(made)


@pytest.mark.parametrize("number", range(1, 8))
def test_an_epoch_whose_dropping_dies_is_not_gone_on_with(lake, monkeypatch, number):
    add(lake, "orders", (20, 1, 1))
    add(lake, "customers", (1, "alias", "west"))
    with dying(monkeypatch, "ivm.refresh.run.step_check"):
        lake.pipeline(lake.folder).refresh()
    with Injector([lake.folder / "root"], [Fault(Effect.DIE, Moment.AFTER, number)], more=WRITES):
        said(lambda: pipeline(lake).backfill("totals"))
    assert right_in_the_end(lake)
    assert leftovers(pipeline(lake)) == []


def test_a_view_that_could_not_be_published_is_built_anew(lake, monkeypatch):
    """What came of the write isn't known: an answer may have been lost."""
    add(lake, "customers", (9, "iota", "north"))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ivm.refresh.publish._merge", full)
        assert refreshed(lake) == {"names", "both"}
    again = pipeline(lake).refresh().views["names"]
    assert again.strategy == "full"
    assert "it failed in epoch 2: it could not be published: " in again.reason
    assert "No space left" in again.reason
    assert differences(pipeline(lake), lake.recomputed(lake.folder)) == []


@pytest.fixture
def impossible(lake):
    """The lake, after a batch of `names` that deletes a row that isn't there."""
    add(lake, "customers", (9, "iota", "north"))
    strange = pa.table({"cust": pa.array([77], pa.int32()), "k": pa.array([1], pa.int64())})
    return with_deletion(lake, "names", strange)


def with_deletion(made, view, strange):
    """The lake after a refresh in which somebody adds the deletion of a row that isn't there."""
    pipe = made.pipeline(made.folder)
    state = pipe.context.log.manifest().units[view]

    def tampering(context, plan, outcomes):
        trace = context.layout.output_trace(view, state.output_generation)
        schema = pa.schema(DeltaTable(trace).schema().to_arrow())
        more = strange.append_column(WEIGHT, pa.array([-1])).append_column(EPOCH, pa.array([plan.epoch]))
        write_deltalake(trace, more.select(schema.names).cast(schema), mode="append")
        return run_gate(context, plan, outcomes)

    pipe._gate = lambda: tampering
    assert "built-in" in pipe.refresh().views[view].error
    return made


def test_a_batch_that_cannot_be_is_followed_by_a_rebuild(impossible):
    with pytest.raises(StateError):
        pipeline(impossible).release("names")
    again = impossible.pipeline(impossible.folder).refresh()
    assert again.ok
    assert again.views["names"].strategy == "full"
    assert "was wrong" in again.views["names"].reason
    assert differences(pipeline(impossible), impossible.recomputed(impossible.folder)) == []


@pytest.mark.parametrize("discarded", [(), (1,), (2,), (1, 2)])
def test_a_rebuild_stays_due_until_it_is_published(impossible, discarded):
    if 1 in discarded:
        assert pipeline(impossible).discard("names").ok
    assert refreshed(impossible, "names") == {"names", "both"}
    if 2 in discarded:
        assert pipeline(impossible).discard("names").ok
    add(impossible, "customers", (9, "kappa", "south"))
    again = pipeline(impossible).refresh()
    assert (again.ok, again.views["names"].strategy) == (True, "full")
    assert differences(pipeline(impossible), impossible.recomputed(impossible.folder)) == []
    add(impossible, "customers", (8, "lambda", "south"))
    assert pipeline(impossible).refresh().views["names"].strategy == "incremental"


def test_a_rebuild_that_is_released_is_published(impossible):
    assert refreshed(impossible, "names") == {"names", "both"}
    assert pipeline(impossible).release("names").ok
    add(impossible, "customers", (8, "lambda", "south"))
    assert pipeline(impossible).refresh().views["names"].strategy == "incremental"
    assert differences(pipeline(impossible), impossible.recomputed(impossible.folder)) == []


def test_no_slice_is_rebuilt_where_the_view_is_to_be(impossible):
    with pytest.raises(StateError, match="'names' of epoch 2 was wrong"):
        pipeline(impossible).backfill("names", where="cust = 1")


def strict(made, view):
    """A pipeline where a view may not be built anew unasked."""
    pipe = pipeline(made)
    pipe.context.views[view] = replace(pipe.context.views[view], mode="incremental")
    return pipe


def test_a_rebuild_stays_due_where_the_mode_forbids_it(impossible):
    for rest in ("kappa", "lambda"):
        add(impossible, "customers", (9, rest, "south"))
        assert "[recovered]" in strict(impossible, "names").refresh().views["names"].error
    assert strict(impossible, "names").backfill("names").ok
    add(impossible, "customers", (8, "mu", "south"))
    assert strict(impossible, "names").refresh().views["names"].strategy == "incremental"
    assert differences(pipeline(impossible), impossible.recomputed(impossible.folder)) == []


def test_a_rebuild_stays_due_where_what_the_view_reads_fails(lake):
    add(lake, "orders", (20, 1, 1))
    with_deletion(lake, "sizes", pa.table({"n": pa.array([77]), "customers": pa.array([1])}))
    lake.views = {**VIEWS, "totals": VIEWS["totals"].replace("count(*)", "count(amount)")}
    for order in (21, 22):
        add(lake, "orders", (order, 1, 1))
        assert "totals failed, which it reads" in strict(lake, "totals").refresh().views["sizes"].error
    lake.views = VIEWS
    add(lake, "orders", (23, 1, 1))
    again = pipeline(lake).refresh().views
    assert (again["totals"].strategy, again["sizes"].strategy) == ("incremental", "full")
    assert "it failed in epoch 2: " in again["sizes"].reason
    assert differences(pipeline(lake), lake.recomputed(lake.folder)) == []


def test_a_rebuild_stays_due_where_one_that_was_asked_for_is_held_back(impossible):
    assert not pipeline(impossible, "names").backfill("names").ok
    add(impossible, "customers", (9, "kappa", "south"))
    assert pipeline(impossible).refresh().views["names"].strategy == "full"
    assert differences(pipeline(impossible), impossible.recomputed(impossible.folder)) == []


@contextmanager
def dying(monkeypatch, where):
    """The process ends where it calls this."""

    def killed(*_, **__):
        raise Killed

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(where, killed)
        yield
        pytest.fail(f"{where} was not called")


def test_a_new_reader_of_a_view_that_was_compacted_is_built_once(lake):
    add(lake, "customers", (9, "iota", "north"))
    assert refreshed(lake) == set()
    pipeline(lake).compact(keep_epochs=0)
    lake.views = {**lake.views, "spread": "SELECT customers, count(*) AS n FROM sizes GROUP BY customers"}
    assert refreshed(lake) == set()
    assert pipeline(lake).plan() is None


def test_a_view_that_is_held_for_long_goes_on_from_its_own_batches(lake):
    """Each attempt commits to the view's traces, whose logs keep the last commits only."""
    for day in range(8):
        add(lake, "orders", (20 + day, 1, 1))
        assert refreshed(lake, "totals") == {"totals", "both", "sizes"}
    tasks = pipeline(lake).plan().tasks
    assert {name: tasks[name].code for name in ("totals", "both", "sizes")} == dict.fromkeys(
        ("totals", "both", "sizes"), "incremental"
    )
    assert right_in_the_end(lake)


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_who_lost_the_lock_compacts_nothing_more(lake, monkeypatch, asked):
    """Another one may have appended since: what this one takes for all batches is no longer all."""
    for day in range(3):
        add(lake, "orders", (20 + day, 1, 1))
        assert refreshed(lake) == set()
    pipe = pipeline(lake)
    pipe.context.limits = replace(pipe.context.limits, threads=1)
    before = versions(pipe)
    left = iter(range(asked))

    @contextmanager
    def lost(*_):
        def fence():
            if next(left, None) is None:
                raise ConcurrentRefreshError("another one took over")

        yield fence

    monkeypatch.setattr("ivm.refresh.context.exclusive", lost)
    with pytest.raises(ConcurrentRefreshError, match="took over"):
        pipe.compact(keep_epochs=0)
    assert len([unit for unit, found in versions(pipe).items() if found != before[unit]]) <= asked - 1
    monkeypatch.undo()
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    assert right_in_the_end(lake)


def versions(pipe):
    """By unit, the newest versions of its tables."""
    units = pipe.context.log.manifest().units
    lie = {u: paths(pipe.context, u, s).values() for u, s in units.items()}
    return {u: [DeltaTable(p).version() for p in found if DeltaTable.is_deltatable(p)] for u, found in lie.items()}

"""Thresholds decide how rows are read and who does it, never what comes out. DuckDB stands in Spark's place."""

from __future__ import annotations

from dataclasses import fields, replace

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from ivm.errors import ConfigError
from ivm.feed.deltas import source_delta
from ivm.pipeline import Pipeline
from ivm.planner.limits import CLUSTER, EMBEDDED
from tests.pure.duck_session import DuckSession
from tests.scenes import TINY, VIEWS, change, path, scene

FIRST = {"first": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 3"}


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A pipeline with some limits that is built and whose sources then changed."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    made = scene(DuckSession(), tmp_path)

    def pipeline(limits):
        pipe = Pipeline("bounded", made.spark, made.folder / "bounded", limits=limits)
        for source in ("orders", "customers"):
            pipe.source(source, path(made, source))
        for name, sql in {**VIEWS, **FIRST}.items():
            pipe.view(name, sql)
        assert pipe.refresh().ok
        change(made)
        return pipe

    return pipeline


@pytest.mark.parametrize(
    "limits",
    [
        CLUSTER,
        replace(EMBEDDED, whole_rows=0, native_whole_rows=-1, accumulator_rows=0, literal_keys=0, stored_first_rows=0),
        replace(
            EMBEDDED,
            judged_rows=-1,
            small_statement_rows=-1,
            small_build_rows=-1,
            threads=1,
            kept_apart=0,
            history_share=0.0,
        ),
        replace(EMBEDDED, whole_rows=0, native_whole_rows=-1, shared_rows=-1),
        replace(EMBEDDED, whole_rows=0, native_whole_rows=-1, shared_rows=-1, found_rows=0),
        replace(EMBEDDED, few_first_rows=-1),
        replace(EMBEDDED, searched_rows=-1),
        replace(EMBEDDED, delta_rows=1),
        replace(EMBEDDED, slice_rows=1, whole_rows=0, native_whole_rows=-1),
        replace(EMBEDDED, result_rows=0, anew_share=0.0),
        TINY,
    ],
)
def test_other_ways_to_the_same_rows(built, limits):
    pipe = built(limits)
    assert {r.strategy for r in pipe.refresh().views.values()} == {"incremental"}
    assert all(pipe.verify(view) for view in (*VIEWS, *FIRST))


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (replace(EMBEDDED, small_input=1), "cost"),
    ],
)
def test_too_much_is_refreshed_in_full(built, limits, code):
    pipe = built(limits)
    assert pipe.refresh().ok
    assert code in {o.code for o in pipe.context.log.outcomes(pipe.context.log.manifest().epoch).values()}
    assert all(pipe.verify(view) for view in (*VIEWS, *FIRST))


def test_a_large_delta_that_cancels_out_is_made(built):
    pipe = built(replace(EMBEDDED, small_input=1, delta_rows=0))
    assert pipe.refresh().ok
    orders = DeltaTable(pipe.context.sources["orders"].location)
    rows = orders.to_pyarrow_table()
    once = rows.group_by("id").aggregate([([], "count_all")]).filter(pc.field("count_all") == 1)["id"]
    rows = rows.filter(pc.is_in(rows["id"], once.combine_chunks()))
    assert rows.num_rows > 1
    merge = orders.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().execute()  # each row becomes what it was
    report = pipe.refresh()
    assert {(r.strategy, r.error) for r in report.views.values()} == {("unchanged", "")}


def test_a_large_delta_that_is_not_needed_is_not_made(built, monkeypatch):
    made = []

    def spied(snapshot, *rest):
        made.append(snapshot.name)
        return source_delta(snapshot, *rest)

    monkeypatch.setattr("ivm.refresh.inputs.source_delta", spied)
    pipe = built(replace(EMBEDDED, small_input=1, delta_rows=0))
    assert {r.strategy for r in pipe.refresh().views.values()} == {"full"}
    assert made == []
    pipe = built(replace(EMBEDDED, small_input=1))
    assert pipe.refresh().ok
    assert "orders" in made, "what this process can hold is read, and decides"
    assert all(pipe.verify(view) for view in (*VIEWS, *FIRST))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, EMBEDDED),
        ({"engine": "spark"}, EMBEDDED),
        ({"engine": "auto"}, EMBEDDED),
        ({"engine": "auto", "limits": CLUSTER}, CLUSTER),
    ],
)
def test_the_profile_is_the_engines_where_none_is_given(tmp_path, monkeypatch, given, found):
    monkeypatch.delenv("IVM_ENGINE", raising=False)
    assert Pipeline("bounded", root=tmp_path, **given).context.limits == found


def test_limits_are_numbers_in_a_profile(tmp_path):
    assert all(isinstance(getattr(EMBEDDED, f.name), int | float) for f in fields(EMBEDDED))
    with pytest.raises(ConfigError, match=r"limits must be an ivm\.planner\.limits\.Limits, found 3"):
        Pipeline("bounded", root=tmp_path, limits=3)

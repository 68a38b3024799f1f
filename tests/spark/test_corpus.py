"""The curated corpus: each view has the strategy it must have, and equals its recompute after every batch."""

from __future__ import annotations

import os

import pytest

from tests.corpus import TABLES, entries

pytestmark = pytest.mark.spark

ENTRIES = entries()
#: Change batches after the first build; the nightly run sets more.
BATCHES = int(os.environ.get("IVM_BATCHES", "1"))
#: Every so many-th entry is built and changed, and every so many-th has its strategy looked at.
STRIDE, LOOKED_AT = (1, 1) if os.environ.get("IVM_NIGHTLY") == "1" else (12, 4)


def tables(lake):
    for name, ddl in TABLES.items():
        lake.table(name, ddl, rows={"a": 25, "b": 15, "c": 8}[name])


def test_the_corpus_is_broad():
    assert len(ENTRIES) >= 300
    assert len({e.name for e in ENTRIES}) == len(ENTRIES)


def test_every_view_has_its_strategy(lake):
    tables(lake)
    looked_at = ENTRIES[::LOOKED_AT]
    context = lake.pipeline({e.name: e.sql for e in looked_at}).context
    context.compile(*context.survey())
    found = {
        n: "incremental" if c.incremental else f"full, {c.program.refusals[0].code}"
        for n, c in context.compiled.items()
    }
    assert found == {e.name: e.expected for e in looked_at}


@pytest.mark.parametrize("engine", ["", "auto"])
def test_every_view_equals_its_recompute(lake, engine):
    lake.engine = engine  # "": the environment says it
    tables(lake)
    compared = [e for e in ENTRIES if e.expected != "full, nondeterministic"][::STRIDE]
    pipe = lake.pipeline({e.name: e.sql for e in compared})
    # What a first build gets wrong is still wrong after a batch, so it isn't compared by itself.
    assert {n: v.error for n, v in pipe.refresh().views.items() if v.error} == {}
    for batch in range(BATCHES):
        changed = [f"{lake.change(n)} {n}" for n in ("a", "b", "c", "a", "b")]
        assert lake.differences(pipe) == {}, f"batch {batch}: {changed}"


def test_what_is_not_deterministic_is_refreshed_in_full(lake):
    tables(lake)
    pipe = lake.pipeline({e.name: e.sql for e in ENTRIES if e.expected == "full, nondeterministic"})
    report = pipe.refresh()
    assert {v.strategy for v in report.views.values()} == {"full"}
    assert {c.program.refusals[0].code for c in pipe.context.compiled.values()} == {"nondeterministic"}


def test_functions_of_the_users_own(lake, spark):
    tables(lake)
    spark.udf.register("ivm_plus_one", lambda x: None if x is None else x + 1, "int")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION ivm_twice(x INT) RETURNS INT RETURN x * 2")
    views = {
        "python_function": "SELECT k, ivm_plus_one(x) AS y FROM a",
        "python_in_sum": "SELECT k, sum(ivm_plus_one(x)) AS y FROM a GROUP BY k",
        "sql_function": "SELECT k, ivm_twice(x) AS y FROM a WHERE ivm_twice(k) > 2",
    }
    pipe = lake.pipeline(views, mode="incremental")
    assert lake.differences(pipe) == {}
    for _ in range(2):
        lake.change("a")
        assert lake.differences(pipe) == {}


def test_aggregates_of_the_users_own(lake, spark):
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    def spread(values):
        return float(values.max() - values.min()) if len(values.dropna()) else None

    spread.__annotations__ = {"values": pd.Series, "return": float}
    tables(lake)
    spark.udf.register("ivm_spread", pandas_udf(spread, "double"))
    views = {
        "by_group": "SELECT k, ivm_spread(x) AS r FROM a GROUP BY k",
        "of_all": "SELECT ivm_spread(x) + 1 AS r FROM a",
        "having": "SELECT s, ivm_spread(x) AS m FROM a GROUP BY s HAVING ivm_spread(x) > 1",
        "joined": "SELECT b.n, ivm_spread(a.x + b.y) AS r FROM a JOIN b ON a.k = b.k GROUP BY b.n",
    }
    pipe = lake.pipeline(views, mode="incremental")
    for _ in range(3):
        assert lake.differences(pipe) == {}
        for name in ("a", "b"):
            lake.change(name)

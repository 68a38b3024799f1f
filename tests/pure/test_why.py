"""`ivm why`: the source rows that support a row are those without which it would not be so; DuckDB in Spark's place."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from ivm.cli.main import main
from ivm.errors import ConfigError, StateError
from ivm.pipeline import Pipeline
from tests.pure.duck_session import DuckSession
from tests.scenes import change, path, scene

VIEWS = {
    "big": "SELECT id, amount * 2 AS twice FROM orders WHERE amount > 2",
    "totals": "SELECT cust, sum(amount) AS s FROM orders GROUP BY cust",
    "named": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.cust = c.cust",
    "idle": (
        "SELECT c.region, count(o.id) AS n FROM customers c LEFT JOIN orders o ON o.cust = c.cust GROUP BY c.region"
    ),
    "padded": "SELECT c.cust, o.id FROM customers c LEFT JOIN orders o ON o.cust = c.cust",
    "nested": "SELECT n, count(*) AS customers FROM (SELECT cust, count(*) AS n FROM orders GROUP BY cust) GROUP BY n",
    "rich": "SELECT t.cust, t.s, c.name FROM totals t JOIN customers c ON t.cust = c.cust WHERE t.s > 3",
    "first": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 2",
    "most": "SELECT max(amount) AS m FROM orders GROUP BY cust",
    "hidden": "SELECT sum(amount) AS m FROM orders GROUP BY cust",
    "both": "SELECT cust AS k FROM orders UNION ALL SELECT cust FROM customers",
    "reached": (
        "WITH RECURSIVE r(id, n) AS (SELECT id, amount FROM orders "
        "UNION SELECT o.id, r.n FROM r JOIN orders o ON o.cust = r.id) SELECT id, n FROM r"
    ),
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    return scene(DuckSession(), tmp_path)


def pipeline(made, *names):
    pipe = Pipeline("asked", made.spark, made.folder / "root")
    for source in ("orders", "customers"):
        pipe.source(source, path(made, source))
    for name in names:
        pipe.view(name, VIEWS[name], file="a file")
    return pipe


def supported(found):
    """The rows of each relation, as sets of their values in the columns' order by name."""
    rows = {}
    for s in found.support:
        rows.setdefault(s.relation, set()).update(tuple(r[c] for c in sorted(r)) for r in s.rows)
    return rows


def test_what_supports_a_row(made):
    pipe = pipeline(made, *(v for v in VIEWS if v != "hidden"))
    assert pipe.refresh().ok

    # orders: (id, cust, amount); the first ones are (1,1,5) (2,1,3) (3,2,8) (4,2,8) (5,3,1) and twice (6,NULL,2)
    assert supported(pipe.why("big", "id = 1")) == {"orders": {(5, 1)}}
    assert supported(pipe.why("totals", "s = 8 AND cust = 1")) == {"orders": {(5, 1), (3, 1)}}
    assert supported(pipe.why("totals", "cust IS NULL")) == {"orders": {(2, None)}}
    assert supported(pipe.why("named", "id = 3")) == {"orders": {(2, 3)}, "customers": {(2, "beta")}}
    assert supported(pipe.why("both", "k = 3")) == {"orders": {(3,)}, "customers": {(3,)}}
    assert supported(pipe.why("first", "id = 4")) == {"orders": {(8, 4)}}

    # by keys that are kept though they aren't shown; through another view, and through an inner grouping
    assert supported(pipe.why("most", "m = 8")) == {"orders": {(8, 2)}}
    assert supported(pipe.why("rich", "name = 'beta'")) == {"orders": {(8, 2)}, "customers": {(2, "beta")}}
    assert supported(pipe.why("nested", "n = 1")) == {"orders": {(3,)}}

    outer = pipe.why("idle", "region = 'south'")
    assert supported(outer) == {"customers": {(3, "south")}, "orders": {(3, 5)}}
    assert not any("other conditions" in n for n in outer.notes)

    padded = pipe.why("padded", "cust = 3")
    assert supported(padded) == {"customers": {(3,)}, "orders": {(3, 5)}}
    assert any("other conditions of the outer join" in n for n in padded.notes)

    recursion = pipe.why("reached", "id = 1")
    assert recursion.support == ()
    assert any("recursion" in n for n in recursion.notes)

    nothing = pipe.why("totals", "cust = 99")
    assert (nothing.rows, nothing.support, nothing.changes) == ((), (), ())


def test_groups_that_are_not_shown_are_not_known(made):
    pipe = pipeline(made, "hidden")
    assert pipe.refresh().ok
    found = pipe.why("hidden", "m = 16")
    assert len(found.rows) == 1
    assert found.support == ()
    assert any("grouped by" in n and "not known" in n for n in found.notes)


def test_what_changed_a_row_and_at_which_versions_it_stands(made):
    assert pipeline(made, "totals").refresh().ok
    change(made)
    assert pipeline(made, "totals").refresh().ok
    change(made)  # not taken in: rows are told as they were read
    pipe = pipeline(made, "totals")
    found = pipe.why("totals", "cust = 2")
    read = pipe.context.log.manifest().units["totals"].cursors["orders"].version
    assert read == DeltaTable(path(made, "orders")).version() - 2
    assert [(s.relation, s.version) for s in found.support] == [("orders", read)]
    assert supported(found) == {"orders": {(4, 2)}}
    assert found.rows == ({"cust": 2, "s": 8},)
    one = pipe.why("totals", "cust = 4")
    assert [(c.epoch, c.weight, c.row, c.strategy) for c in one.changes] == [(2, 1, {"cust": 4, "s": 6}, "incremental")]
    gone = pipe.why("totals", "cust = 3")
    assert gone.rows == ()
    assert [(c.epoch, c.weight, c.row) for c in gone.changes] == [(2, -1, {"cust": 3, "s": 1})]
    assert "changes up to epoch 1 are not kept apart" in gone.notes


@pytest.mark.parametrize(
    "where",
    [
        "cust = 1; DROP TABLE totals",
        "cust = 1) OR (true",
        "cust IN (SELECT 1)",
        "cust",
        "sum(s) > 1",
        "rand() > 0.5",
        "true -- all",
        "reflect('java.lang.System', 'exit', 1) = 'x'",
        "",
    ],
)
def test_what_is_no_condition_is_refused(made, where):
    pipe = pipeline(made, "totals")
    assert pipe.refresh().ok
    with pytest.raises(ConfigError):
        pipe.why("totals", where)


def test_before_the_first_refresh_there_is_nothing_to_ask(made):
    with pytest.raises(StateError, match="not been refreshed"):
        pipeline(made, "totals").why("totals", "cust = 1")


def test_the_command(made, monkeypatch, capsys):
    assert pipeline(made, "totals").refresh().ok
    change(made)
    assert pipeline(made, "totals").refresh().ok
    monkeypatch.setattr("ivm.pipeline.Pipeline.load", lambda folder: pipeline(made, "totals"))
    monkeypatch.setattr("ivm.cli.terminal.out.size", (200, 50))

    def shown(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["why", "totals", "--where", "cust = 4", *arguments])
        assert end.value.code == 0
        return capsys.readouterr().out

    text = shown()
    assert "supported by orders at version" in text
    assert "changed by" in text
    assert "changes up to epoch 1 are not kept apart" in text
    found = json.loads(shown("--json"))
    assert found["rows"] == [{"cust": 4, "s": 6}]
    assert {s["relation"] for s in found["support"]} == {"orders"}

"""A view takes for changed only what changed in a column that it reads, whatever others read of the same delta."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.lake import native
from ivm.planner.limits import EMBEDDED
from ivm.refresh.inputs import Inputs
from ivm.testing.recovery import Scene, differences
from tests.pure.duck_session import WRITES, DuckSession

#: Random lakes tried; the nightly run sets more.
EXAMPLES = int(os.environ.get("IVM_EXAMPLES", "4"))
PEOPLE = pa.table({"k": [1, 2, 3, 3], "city": ["a", "b", "b", "b"], "x": [1.0, 2.0, 3.0, 3.0], "n": [1, 1, 2, 2]})
CITIES = pa.table({"city": ["a", "b"], "land": ["x", "y"], "size": [5, 6]})
VIEWS = {
    "plain": "SELECT k, city FROM people",
    "joined": "SELECT p.k, c.land FROM people p JOIN cities c ON p.city = c.city",
    "padded": "SELECT c.city, p.k FROM cities c LEFT JOIN people p ON p.city = c.city",
    "most": "SELECT city, max(k) AS most FROM people GROUP BY city",
    "rows": "SELECT count(*) AS n FROM people",
    "sizes": "SELECT p.n, sum(c.size) AS size FROM people p JOIN cities c ON p.city = c.city GROUP BY p.n",
    "upon": "SELECT n, count(*) AS groups FROM sizes GROUP BY n",
    "lone": "SELECT c.land FROM cities c WHERE NOT EXISTS (SELECT 1 FROM people p WHERE p.city = c.city)",
}


@pytest.fixture
def scene(tmp_path, without_a_jvm):
    made = Scene(DuckSession(), tmp_path, VIEWS, ("people", "cities"), writes=WRITES)
    for name, rows in (("people", PEOPLE), ("cities", CITIES)):
        path = str(tmp_path / "sources" / name)
        write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    assert made.pipeline(tmp_path).refresh().ok
    return made


def updated(scene, table, values, where):
    """Other values in some rows: they go, and come back changed."""
    path = f"{scene.folder}/sources/{table}"
    delta = DeltaTable(path)
    columns = [f.name for f in delta.schema().fields]
    selected = ", ".join(f"{values[c]} AS {c}" if c in values else c for c in columns)
    rows = native.query(f"SELECT {selected} FROM t WHERE {where}", {"t": delta})
    delta.delete(where)
    write_deltalake(path, rows, mode="append")


def refreshed(scene):
    """The views that were unchanged, once all are compared with a recompute."""
    pipe = scene.pipeline(scene.folder)
    report = pipe.refresh()
    assert report.ok, report
    assert differences(pipe, scene.recomputed(scene.folder)) == []
    return {name for name, view in report.views.items() if view.strategy == "unchanged"}


@pytest.mark.parametrize(
    ("table", "values", "where", "unchanged"),
    [
        ("people", {"x": "9.5"}, "k = 3", set(VIEWS)),
        ("people", {"n": "n + 1"}, "k = 3", set(VIEWS) - {"sizes", "upon"}),
        ("people", {"k": "k + 1"}, "k = 3", {"rows", "sizes", "upon", "lone"}),
        ("people", {"city": "'a'"}, "k = 2", {"rows", "upon"}),
        ("cities", {"size": "size + 1"}, "city = 'b'", set(VIEWS) - {"sizes"}),
        ("cities", {"land": "'z'"}, "city = 'b'", set(VIEWS) - {"joined", "lone"}),
    ],
    ids=["none reads it", "a number", "a key", "a join key", "a sum", "a text"],
)
def test_views_that_read_no_changed_column_are_unchanged(scene, table, values, where, unchanged):
    updated(scene, table, values, where)
    found = refreshed(scene)
    assert found == unchanged


def test_what_changed_beside_it_is_no_change_of_a_relation(scene, monkeypatch):
    """Rows go and come as well: then the other relation's change alone is applied."""
    asked = {}
    deltas = Inputs.deltas

    def noted(self, unit, state):
        asked[unit.name] = set(found := deltas(self, unit, state))
        return found

    monkeypatch.setattr(Inputs, "deltas", noted)
    updated(scene, "cities", {"size": "size + 1"}, "city = 'b'")
    write_deltalake(f"{scene.folder}/sources/people", PEOPLE.slice(0, 2), mode="append")
    refreshed(scene)
    assert asked["joined"] == asked["padded"] == {"people"}
    assert asked["sizes"] == {"people", "cities"}


def test_rows_that_only_their_number_tells_apart(scene):
    """One of two equal rows goes while another row's unread column changes: not all of them cancel out."""
    updated(scene, "people", {"x": "x + 1"}, "k = 1")
    DeltaTable(f"{scene.folder}/sources/people").delete("k = 2")
    write_deltalake(f"{scene.folder}/sources/people", PEOPLE.slice(2, 1), mode="append")
    assert refreshed(scene) & {"plain", "joined", "most", "sizes", "rows", "lone"} == {"rows", "lone"}


MORE = {
    "lands": "SELECT p.k, p.x, c.land FROM people p JOIN cities c ON p.city = c.city",
    "largest": "SELECT p.n, max(c.size) AS most FROM people p JOIN cities c ON p.city = c.city GROUP BY p.n",
    "sized": "SELECT p.n, sum(c.size) AS size FROM people p LEFT JOIN cities c ON p.city = c.city GROUP BY p.n",
    "biggest": "SELECT city, n, rank() OVER (PARTITION BY n ORDER BY city) AS place FROM people",
    "known": (
        "SELECT p.n, max(p.k) AS k FROM people p WHERE EXISTS (SELECT 1 FROM cities c WHERE c.city = p.city) "
        "GROUP BY p.n"
    ),
    "twice": "SELECT a.k, max(b.x) AS x FROM people a LEFT JOIN people b ON a.n = b.k GROUP BY a.k",
    "first": "SELECT p.k, c.size FROM people p JOIN cities c ON p.city = c.city ORDER BY c.size DESC, p.k LIMIT 2",
    "above": "SELECT l.n, l.most, c.land FROM largest l JOIN cities c ON l.most = c.size",
}


@pytest.mark.usefixtures("without_a_jvm")
def test_groups_of_rows_that_only_others_take_for_changed_are_left_alone(tmp_path):
    """What another view asked for beside such a row is there; the rest of its group isn't."""
    limits = replace(EMBEDDED, whole_rows=0, native_whole_rows=-1)
    made = Scene(DuckSession(), tmp_path, MORE, ("people", "cities"), writes=WRITES, limits=limits)
    people = pa.concat_tables([PEOPLE, pa.table({"k": [4], "city": ["c"], "x": [1.0], "n": [2]})])
    cities = pa.concat_tables([CITIES, pa.table({"city": ["c"], "land": ["x"], "size": [9]})])
    for name, rows in (("people", people), ("cities", cities)):
        path = str(tmp_path / "sources" / name)
        write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    assert made.pipeline(tmp_path).refresh().ok
    updated(made, "people", {"x": "x + 1"}, "k = 3")
    updated(made, "cities", {"size": "size + 1"}, "city = 'a'")
    assert refreshed(made) == {"biggest", "known"}


@pytest.mark.parametrize("seed", range(EXAMPLES))
@pytest.mark.usefixtures("without_a_jvm")
def test_any_columns_change(tmp_path, seed):
    """Some rows of one table or both get other values in some columns, or only come back; all is equal each time."""
    dice = random.Random(seed)
    limits = replace(EMBEDDED, whole_rows=0, native_whole_rows=-1, few_first_rows=dice.choice([-1, 9]))
    made = Scene(DuckSession(), tmp_path, {**VIEWS, **MORE}, ("people", "cities"), writes=WRITES, limits=limits)
    for name, rows in (("people", PEOPLE), ("cities", CITIES)):
        path = str(tmp_path / "sources" / name)
        many = pa.concat_tables([rows] * dice.randint(1, 3))
        write_deltalake(path, many, configuration={"delta.enableChangeDataFeed": "true"})
    assert made.pipeline(tmp_path).refresh().ok
    other = {
        "people": {"k": "k + 1", "city": "CASE city WHEN 'a' THEN 'b' ELSE 'a' END", "x": "x + 1", "n": "n % 3 + 1"},
        "cities": {"city": "CASE city WHEN 'a' THEN 'c' ELSE 'a' END", "land": "'z'", "size": "size + 1"},
    }
    for _ in range(3):
        for table in dice.sample(["people", "cities"], dice.randint(1, 2)):
            columns = dice.sample(sorted(other[table]), dice.randint(0, 2))
            where = f"{'k' if table == 'people' else 'size'} % 3 = {dice.randint(0, 2)}"
            updated(made, table, {c: other[table][c] for c in columns}, where)
        refreshed(made)

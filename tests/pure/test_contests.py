"""The benchmarks that take turns, with stand-ins for all who take part: who is asked what, when, and what is kept."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from ivm.config import load_folder
from ivm.demo import tpch
from ivm.demo.bench import alone, contest, crossing
from ivm.demo.bench.asked import Asked
from ivm.demo.bench.duck_rebuild import DuckRebuild
from ivm.demo.bench.lake import Lake
from ivm.demo.bench.steps import Steps
from ivm.demo.bench.taken import Taken
from ivm.errors import ConfigError
from ivm.refresh.views import View
from tests.pure.test_bench import TABLES

ALL = ("spark", "auto", "rebuild", "duckdb")
VIEWS = [View("q03", "SELECT 1 FROM lineitem"), View("q05", "SELECT 1 FROM orders"), View("over", "SELECT 1 FROM q05")]


class Party:
    """Everybody's stand-in; `told` is what happened, in order. The n-th turn of all takes n seconds."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.turns = 0
        self.left: dict[str, list[float]] = {}
        self.builds: dict[str, list[float]] = {}

    def there(self, name):
        return name in self.left

    def built(self, name, seconds=None):
        self.builds.setdefault(name, list(self.left.get(name, []))).extend([] if seconds is None else [seconds])
        return self.builds[name]

    def change(self, fraction):
        self.told.append(f"change {fraction:g}")

    def change_row(self, q03):
        self.told.append(f"row {q03}")

    def refresh_by(self, engine, lake, steps, place="", mode=""):
        return Stand(self, engine, place or engine, mode)

    def rebuilds(self, names, lake, views):
        return {n: Stand(self, n, n) for n in names if n in ("rebuild", "duckdb")}

    def verified(self, refresh, steps):
        self.told.append(f"verify {refresh.place}")
        return {"what": "", "rows": {v.name: 1 for v in VIEWS}, "differing": {}}

    def from_shell(self, folder, views=()):
        return self.take(f"shell {folder}", views)

    def take(self, what, views=None):
        self.turns += 1
        self.told.append(f"{what} {' '.join(views)}" if views else what)
        return Taken(float(self.turns), {"q03": 1.0}, {"q03": "incremental", "q05": "full"})


class Stand:
    def __init__(self, party, name, place, mode=""):
        self.party, self.name, self.place, self.folder, self.mode = party, name, place, place, mode
        self.pipe = SimpleNamespace(context=SimpleNamespace(views={v.name: v for v in VIEWS}))
        self.q03 = f"{place}/q03"

    def run(self, views=None):
        return self.party.take(self.place, views)

    def run_in_full(self):
        return self.party.take(f"{self.place} in full")


@pytest.fixture
def party(monkeypatch):
    party = Party()
    for module in (contest, alone, crossing):
        for name in ("refresh_by", "rebuilds", "verified"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(party, name))
        monkeypatch.setattr(module, "load", lambda: [0.0, 0.0, 0.0])
    monkeypatch.setattr(contest, "refresh_from_shell", party.from_shell)
    return party


def run(bench, party, name, **other):
    with Steps(Console(file=io.StringIO())) as steps:
        return bench(Asked(name, Path("x"), **other), party, steps)


def test_everybody_takes_a_turn_after_each_change(party):
    found = run(contest.contest, party, "tpch", rounds=2, warm_up=1, engines=ALL)
    builds, told = party.told[:5], party.told[5:]
    assert builds == ["rebuild", "spark", "auto", "duckdb", "rebuild"]
    assert told[:7] == ["change 0.001", "spark", "spark", "auto", "auto", "rebuild", "duckdb"]
    assert told[7:14] == ["change 0.001", "duckdb", "rebuild", "auto", "auto", "spark", "spark"]
    assert told[14:21] == ["change 0.001", "auto", "auto", "rebuild", "duckdb", "spark", "spark"]
    assert told[21:26] == ["row spark/q03", "spark q03", "auto q03", "rebuild q03", "duckdb q03"]
    assert told[-5:] == ["spark", "auto", "duckdb", "verify spark", "verify auto"], (
        "what is rebuilt needs no comparison"
    )
    records = found["contestants"]
    assert [len(records[n]["change_s"]) for n in ALL] == [2, 2, 2, 2], "rounds to warm up are not kept"
    assert [len(records[n]["one_row_s"]) for n in ALL] == [2, 2, 2, 2]
    assert records["rebuild"]["first_build_s"] == [1.0, 5.0]
    assert "no_op_s" not in records["duckdb"]


def test_rebuilds_take_part_in_the_last_round_to_warm_up_only(party):
    run(contest.contest, party, "tpch", rounds=1, warm_up=3, engines=("spark", "rebuild"))
    rounds = " ".join(party.told[3:]).split("change 0.001 ")[1:]
    assert [r.split()[:3].count("rebuild") for r in rounds] == [0, 0, 1, 1]
    assert all(r.split()[:3].count("spark") == 2 for r in rounds), "a refresh, and one that finds nothing to do"


def test_what_an_earlier_run_left_is_no_first_build(party):
    party.left = {"spark": [7.0], "rebuild": [8.0, 9.0]}
    found = run(contest.contest, party, "tpch", rounds=1, warm_up=0, engines=("spark", "auto", "rebuild"))
    assert party.told[:3] == ["spark", "auto", "change 0.001"]
    builds = {name: of.get("first_build_s") for name, of in found["contestants"].items()}
    assert builds == {"spark": [7.0], "auto": [2.0], "rebuild": [8.0, 9.0]}


def test_fresh_processes_take_turns_too(party):
    found = run(contest.contest, party, "tpch", rounds=2, warm_up=0, engines=("auto", "spark"), shell=True)
    shell = [t for t in party.told if t.startswith("shell")]
    assert shell[:6] == ["shell auto", "shell auto", "shell spark", "shell spark", "shell auto q03", "shell spark q03"]
    assert shell[6:8] == ["shell spark", "shell spark"], "another one is first"
    assert len(found["contestants"]["spark"]["shell_one_row_s"]) == 2
    assert len(found["contestants"]["auto"]["shell_no_op_s"]) == 2


def test_each_query_is_alone(party):
    found = run(alone.alone, party, "alone", rounds=1, warm_up=1, engines=("spark",))
    assert list(found["views"]) == ["q03", "q05"], "a view over a view is none of the queries"
    assert party.told[2:] == [
        *("change 0.001", "spark q03", "rebuild q03", "rebuild q05", "spark q05"),
        *("change 0.001", "rebuild q03", "spark q03", "rebuild q05", "spark q05"),
        *("spark", "verify spark"),
    ]
    assert found["views"]["q03"] == {"spark": [8.0], "rebuild": [7.0]}
    assert found["engines"]["spark"]["worst_view"] == "q03"
    assert party.builds == {"spark": [1.0], "rebuild": [2.0]}, "another run may go on with this lake"


def test_tables_of_an_earlier_run_are_not_built_before_queries_are_alone(party):
    party.left = {"spark": [], "rebuild": []}
    run(alone.alone, party, "alone", rounds=1, warm_up=0, engines=("spark",))
    assert party.told[:3] == ["spark", "change 0.001", "spark q03"]


def test_a_run_goes_on_with_what_another_left(tmp_path, monkeypatch):
    batches = []
    monkeypatch.setattr(tpch, "change", lambda spark, sources, batch, *_, **__: batches.append(batch))
    monkeypatch.setattr(tpch, "generate", lambda data, scale: data.mkdir(exist_ok=True))
    monkeypatch.setattr(tpch, "load", lambda spark, data, sources: sources.mkdir(parents=True))
    with Steps(Console(file=io.StringIO())) as steps:
        first, second, third = (Lake(None, tmp_path, Asked("tpch", tmp_path, again=a)) for a in (False, True, False))
        with pytest.raises(ConfigError, match="--again"):
            second.load(steps)
        first.load(steps)
        folder = first.pipeline("auto", engine="auto")
        first.change(0.1)
        first.built("auto", 1.5)
        assert not first.there("auto")
        second.load(steps)
        second.change(0.1)
        second.pipeline("spark")
        assert not second.there("spark"), "it was made just now"
        assert second.built("auto", 2.5) == [1.5, 2.5]
        assert (second.there("auto"), second.there("spark"), second.pipeline("auto")) == (True, False, folder)
        third.load(steps)
        third.change(0.1)
        assert third.built("auto") == []
    assert batches == [1, 2, 1]


def test_the_planner_and_both_strategies_see_the_same_changes(party):
    found = run(crossing.crossing, party, "change", rounds=1, warm_up=2, engines=("spark",), fractions=(0.5, 0.01))
    assert party.told[3:] == [
        *("change 0.01", "spark_planner", "spark_incremental"),
        *("change 0.01", "spark_full in full", "spark_incremental", "spark_planner"),
        *("change 0.01", "spark_incremental", "spark_full in full", "spark_planner"),
        *("change 0.5", "spark_planner", "spark_incremental"),
        *("change 0.5", "spark_planner", "spark_incremental"),
        *("change 0.5", "spark_incremental", "spark_planner", "spark_full in full"),
        *("verify spark_planner", "verify spark_incremental", "verify spark_full"),
    ], "each share is warmed up, building anew once"
    of = found["engines"]["spark"]
    assert [len(at[way]) for at in of.values() for way in crossing.WAYS] == [1] * 6, "rounds to warm up are not kept"
    assert of["0.5"]["chosen"] == {"incremental": 1, "full": 1}
    assert of["0.5"]["median"] == {"planner": 17.0, "incremental": 16.0, "full": 18.0}
    assert of["0.5"]["behind"] == 1.06


def test_a_pipeline_of_a_benchmark_has_a_root_and_an_engine_of_its_own(tmp_path):
    lake = Lake(None, tmp_path, Asked("tpch", tmp_path))
    made = load_folder(lake.pipeline("auto", engine="auto", mode="incremental"))
    assert made.root == str(tmp_path / "lake" / "auto" / "root")
    assert (made.engine, made.mode) == ("auto", "incremental")
    assert {s.location for s in made.sources} == {str(tmp_path / "lake" / "sources" / s.name) for s in made.sources}
    assert len(made.views) == 23


def test_what_duckdb_can_not_run_is_listed_with_its_error(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    from deltalake import write_deltalake

    lake = Lake(None, tmp_path, Asked("tpch", tmp_path))
    for table, columns in TABLES.items():
        row = duckdb.connect().sql(f"SELECT {', '.join(_nulls(columns))}")
        write_deltalake(lake.sources / table, row.to_arrow_table())
    write_deltalake(lake.sources / "nation", duckdb.connect().sql(NATION).to_arrow_table(), mode="append")
    views = [View("names", "SELECT n_name FROM nation"), View("odd", "SELECT soundex(n_name) FROM nation")]
    duck = DuckRebuild(lake, [*views, View("over", "SELECT count(*) AS n FROM names")])
    taken = duck.run()
    assert duck.rows() == {"names": 2, "over": 1}
    assert list(taken.by_view) == ["names", "over"]
    assert "soundex" in taken.failed["odd"].lower()
    assert list(duck.run(["over"]).by_view) == ["over"]


NATION = "SELECT 7::BIGINT AS n_nationkey, 'N' AS n_name, 0::BIGINT AS n_regionkey, '' AS n_comment"


def _nulls(columns: str) -> list[str]:
    """A row of nothing with these columns ("name TYPE, ...")."""
    named = [column.split(" ", 1) for column in re.split(r", (?=[a-z])", columns)]
    return [f"CAST(NULL AS {type_}) AS {name}" for name, type_ in named]

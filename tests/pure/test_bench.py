"""Benchmarks on TPC-H, as far as they are pure: who is next, medians, tables, the page, DuckDB's SQL of the queries."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import page
from ivm.demo import tpch
from ivm.demo.bench import result
from ivm.demo.bench.alone import together
from ivm.demo.bench.asked import Asked, listed, shares
from ivm.demo.bench.crossing import with_medians
from ivm.demo.bench.duck_rebuild import duck_sql
from ivm.demo.bench.record import Record
from ivm.demo.bench.show import show
from ivm.demo.bench.steps import Steps
from ivm.demo.bench.taken import Taken
from ivm.demo.bench.turns import turns
from ivm.errors import ConfigError

VIEWS = sorted((Path(__file__).resolve().parents[2] / "pipelines" / "tpch" / "views").glob("*.sql"))
NAMES = ("spark", "auto", "rebuild", "duckdb")
MACHINE_TODAY = {"at": "2026-11-24", "cores": 2, "memory_gib": 24, "processor": "Ours"}


@pytest.fixture(autouse=True)
def same_machine(monkeypatch):
    monkeypatch.setattr(result, "machine", lambda: {**MACHINE_TODAY, "load_average": [9, 9, 9]})
    monkeypatch.setattr(result, "versions", lambda: {"python": "3.11.0", "duckdb": "2.0.0"})


def asked(name="tpch", **other):
    return Asked(name, Path("x"), **other)


def contest(**duckdb):
    """The figures of a contest of two rounds."""
    records = {name: Record() for name in NAMES}
    for number, name in enumerate(NAMES, 1):
        records[name].first_build_s.append(100.0 * number)
        for seconds in (number, number + 2.0004):
            ours = number < 3
            taken = Taken(seconds, {"q01": seconds / 2}, {"q01": "full"} if name == "auto" else {})
            records[name].change(taken, 0.01 if ours else None)
    records["duckdb"].failed |= duckdb
    equal = {"what": "each row", "rows": {"q01": 4}, "differing": {}}
    verified = {"spark": equal, "auto": equal, "duckdb": {**equal, "differing": {"q01": "3 rows, ivm has 4"}}}
    found = {
        "contestants": {n: r.told() for n, r in records.items()},
        "load_after": [0.2, 0, 0],
        "verified": verified,
    }
    return result.told(asked(rounds=2), [0.1, 0.0, 0.0], found)


def alone():
    seconds = {"q01": {"spark": [1.0, 2.0, 9.0], "rebuild": [8.0]}, "q02": {"spark": [2.0], "rebuild": [1.0]}}
    found = {"views": seconds, "engines": {"spark": together(seconds, "spark")}, "load_after": [0], "verified": {}}
    return result.told(asked("alone"), [0], found)


def change():
    at = with_medians({"planner": [3.0], "incremental": [2.0], "full": [4.0], "chosen": {"incremental": 20, "full": 3}})
    found = {"engines": {"spark": {"0.001": at}}, "load_after": [0], "verified": {}}
    return result.told(asked("change"), [0], found)


def means():
    every = {"seconds": [2.0], "median": 2.0, "times": 1.0, "chosen": {"incremental": 23}}
    threads = {"seconds": [4.2], "median": 4.2, "times": 2.1, "chosen": {"incremental": 20, "full": 3}}
    engines = {"spark": {"all": every, "threads": threads}, "auto": {"all": every}}
    without = {"all": "as it is", "threads": "one after the other"}
    return result.told(asked("means"), [0], {"engines": engines, "without": without, "load_after": [0], "verified": {}})


# -- turns -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [NAMES, NAMES[:2], NAMES[:1]])
def test_each_contestant_is_first_and_last_equally_often(names):
    orders = [turns(names, number) for number in range(2 * len(names))]
    assert all(sorted(order) == sorted(names) for order in orders)
    assert set(Counter(order[0] for order in orders).values()) == {2}
    assert set(Counter(order[-1] for order in orders).values()) == {2}


def test_the_order_alternates():
    assert [turns(["a", "b", "c"], n) for n in range(4)] == [list("abc"), list("cba"), list("bca"), list("acb")]


# -- figures ---------------------------------------------------------------------------------------


def test_rounds_are_kept_beside_their_medians():
    told = contest()["contestants"]
    assert told["auto"]["change_s"] == [2, 4.0]
    assert told["auto"]["median"]["change_s"] == 3.0
    assert told["auto"]["by_view_s"] == {"q01": [1.0, 2.0]}
    assert told["auto"]["median"]["by_view_s"] == {"q01": 1.5}
    assert told["auto"]["strategies"] == {"q01": "full"}
    assert "no_op_s" not in told["rebuild"]["median"]
    assert "shell_change_s" not in told["auto"]["median"], "nothing was measured"


def test_figures_say_what_they_are_from():
    found = contest()
    assert found["benchmark"] == "tpch_sf1"
    assert found["shape"] == result.SHAPE
    assert found["machine"] == {**MACHINE_TODAY, "load_before": [0.1, 0.0, 0.0], "load_after": [0.2, 0, 0]}
    assert found["fractions"] == [0.001]
    assert found["versions"]["duckdb"] == "2.0.0"


def test_figures_say_by_which_command_they_are_had_again():
    def command(name, **asked):
        return Asked(name, Path("x"), **asked).command

    assert command("tpch") == "./run bench tpch --scale 1 --keep"
    assert command("alone", scale=10, rounds=1, warm_up=0, again=True) == (
        "./run bench alone --scale 10 --rounds 1 --warm-up 0 --again --keep"
    )
    assert command("tpch", fractions=(0.0001,), engines=("auto", "spark"), changes="rf", shell=True) == (
        "./run bench tpch --scale 1 --fraction 0.0001 --engines auto,spark --changes rf --shell --keep"
    )
    assert command("change", fractions=(0.1, 0.5)) == "./run bench change --scale 1 --fractions 0.1,0.5 --keep"


def test_figures_of_another_share_of_rows_have_a_name_of_their_own():
    names = {f: result.named(Asked("tpch", Path("x"), 10, f)) for f in ((0.001,), (0.0001,), (0.1, 0.5))}
    assert list(names.values()) == ["tpch_sf10", "tpch_sf10_0.0001", "tpch_sf10"]


def test_a_view_of_ours_that_differs_fails_the_benchmark_and_is_said():
    found = contest()
    assert result.equal(found), "DuckDB's are its own affair"
    found["verified"]["auto"] = {"what": "each row", "rows": {"q01": 4}, "differing": {"q01": "2 rows missing"}}
    assert not result.equal(found)
    assert "ivm, embedded DIFFERS in q01: 2 rows missing" in result.remarks(found)


def test_what_a_contestant_can_not_run_is_shown_with_its_error():
    found = contest(q07="Binder Error: no such function")
    assert "DuckDB, full rebuild can't run q07: Binder Error: no such function" in result.remarks(found)
    found["contestants"]["spark"]["median"]["by_view_s"]["q07"] = 1.0
    _, rows = result.view_table(found)
    assert rows[1] == ["q07", "1.00", "-", "-", "can't"]


def test_tables():
    columns, rows = result.contest_table(contest())
    assert columns == ["seconds", "ivm, Spark", "ivm, embedded", "Spark, full rebuild", "DuckDB, full rebuild"]
    assert rows[0] == ["0.1% of the rows changed, all views, warm", "2.00", "3.00", "4.00", "5.00"]
    assert rows[1] == ["nothing changed, warm", "0.01", "0.01", "-", "-"]
    assert rows[2] == ["first build of all views", "100", "200", "300", "400"]
    assert result.view_table(contest())[1] == [["q01", "1.00", "1.50 (full)", "2.00", "2.50"]]


def test_queries_alone_have_a_geometric_mean_and_a_worst():
    _, rows = result.alone_table(alone())
    assert rows == [
        ["q01", "8.00", "2.00", "4.00"],
        ["q02", "1.00", "2.00", "0.50"],
        ["geometric mean", "", "", "1.41"],
        ["worst", "", "q02", "0.50"],
    ]


def test_the_planner_is_measured_against_the_better_strategy():
    _, rows = result.crossing_table(change())
    assert rows == [["ivm, Spark", "0.1%", "3.00", "2.00", "4.00", "1.50", "20 incremental, 3 full"]]


def test_each_mean_is_measured_against_all_of_them():
    _, rows = result.means_table(means())
    assert rows == [
        ["all", "as it is", "2.00", "1.00", "23 incremental", "2.00", "1.00", "23 incremental"],
        ["threads", "one after the other", "4.20", "2.10", "20 incremental, 3 full", "-", "-", "-"],
    ]


@pytest.mark.parametrize("found", [contest, alone, change, means])
def test_a_console_shows_all_of_it(found):
    out = io.StringIO()
    show(found(), Console(file=out, width=200))
    assert "TPC-H SF1" in out.getvalue()
    assert "load averages before and after" in out.getvalue()


def test_steps_are_lines_where_there_is_no_terminal():
    out = io.StringIO()
    with Steps(Console(file=out)) as steps:
        steps.expect(2)
        steps.at("loading")
        steps.within("apply", 1, 3)
        steps.at("building")
    lines = [line.split("  ")[-1] for line in out.getvalue().splitlines()]
    assert lines == ["1 of 2: loading", "2 of 2: building"]


# -- what is asked ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"scale": float("nan")}, "no scale nan"),
        ({"fractions": (0.1, 2.0)}, r"no share of rows \[2.0\]"),
        ({"fractions": ()}, "no share of rows"),
        ({"rounds": 0}, "must be a whole number from 1"),
        ({"engines": ("spark", "flink")}, "no contestant 'flink'"),
        ({"engines": ()}, "no contestant without a name"),
        ({"changes": "all"}, "no kind of changes 'all'"),
    ],
)
def test_what_can_not_be_measured_is_said_in_a_sentence(other, said):
    with pytest.raises(ConfigError, match=said):
        asked(**other)


def test_options_are_lists_by_commas_or_spaces():
    assert listed("spark, auto spark") == ("spark", "auto")
    assert shares("0.001,0.5") == (0.001, 0.5)
    with pytest.raises(ConfigError, match="no list of numbers"):
        shares("a tenth")


def test_a_contest_has_an_engine_of_ivm():
    assert asked().own == ("spark", "auto")
    with pytest.raises(ConfigError, match="No engine of ivm"):
        asked(engines=("duckdb",))


def test_the_refresh_functions_are_the_first_statements_of_a_batch():
    every = tpch.change_statements(Path("/x"), 3, 0.001)
    only = tpch.change_statements(Path("/x"), 3, 0.001, refresh_functions_only=True)
    assert every[: len(only)] == only
    assert [s.split()[0] for s in only] == ["INSERT", "INSERT", "DELETE", "DELETE"]
    assert {s.split()[0] for s in every[len(only) :]} == {"UPDATE"}


# -- DuckDB ----------------------------------------------------------------------------------------


def test_duckdb_runs_all_queries():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    for table, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
    connection.execute("CREATE TABLE q05 (n_name VARCHAR, revenue DECIMAL(38, 4))")
    for view in VIEWS:
        connection.sql(duck_sql(view.read_text())).fetchall()
    assert len(VIEWS) == 23


TABLES = {
    "region": "r_regionkey BIGINT, r_name VARCHAR, r_comment VARCHAR",
    "nation": "n_nationkey BIGINT, n_name VARCHAR, n_regionkey BIGINT, n_comment VARCHAR",
    "supplier": "s_suppkey BIGINT, s_name VARCHAR, s_address VARCHAR, s_nationkey BIGINT, s_phone VARCHAR, "
    "s_acctbal DECIMAL(15, 2), s_comment VARCHAR",
    "customer": "c_custkey BIGINT, c_name VARCHAR, c_address VARCHAR, c_nationkey BIGINT, c_phone VARCHAR, "
    "c_acctbal DECIMAL(15, 2), c_mktsegment VARCHAR, c_comment VARCHAR",
    "part": "p_partkey BIGINT, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR, p_type VARCHAR, p_size INTEGER, "
    "p_container VARCHAR, p_retailprice DECIMAL(15, 2), p_comment VARCHAR",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INTEGER, ps_supplycost DECIMAL(15, 2), "
    "ps_comment VARCHAR",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus VARCHAR, o_totalprice DECIMAL(15, 2), "
    "o_orderdate DATE, o_orderpriority VARCHAR, o_clerk VARCHAR, o_shippriority INTEGER, o_comment VARCHAR",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INTEGER, "
    "l_quantity DECIMAL(15, 2), l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2), l_tax DECIMAL(15, 2), "
    "l_returnflag VARCHAR, l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, "
    "l_shipinstruct VARCHAR, l_shipmode VARCHAR, l_comment VARCHAR",
}


# -- the page --------------------------------------------------------------------------------------


def test_a_page_of_no_figures_says_so(tmp_path):
    text = page.page({}, tmp_path)
    assert text.count("Not measured.") == 9, "four benchmarks at two scales, and the sizes"
    assert "`./run bench tpch --scale 10 --shell --keep`" in text
    assert "](plots" not in text


def test_a_page_of_figures(tmp_path):
    (tmp_path / "tpch_sf1.svg").touch()
    found = {f["benchmark"]: f for f in (contest(), alone(), change())}
    text = page.page(found, tmp_path)
    assert "| q01 | 1.00 | 1.50 (full) | 2.00 | 2.50 |" in text
    assert "| worst |  | q02 | 0.50 |" in text
    assert "| ivm, Spark | 0.1% | 3.00 | 2.00 | 4.00 | 1.50 | 20 incremental, 3 full |" in text
    assert "![tpch_sf1](plots/tpch_sf1.svg)" in text
    assert "DuckDB, full rebuild DIFFERS in q01: 3 rows, ivm has 4" in text
    assert text.count("Not measured.") == 6


def test_the_page_tells_what_the_same_change_takes_at_another_size(tmp_path):
    small, large = contest(), contest()
    large |= {"scale": 10.0, "fractions": [0.0001], "command": "./run it again"}
    for of in large["contestants"].values():
        of["median"] = {**of["median"], "change_s": 9.0}
    text = page.page({"tpch_sf1": small, "tpch_sf10_0.0001": large}, tmp_path)
    assert "| seconds | SF1, 0.1% | SF10, 0.01% | times as long |" in text
    assert "| ivm, embedded | 3.00 | 9.00 | 3.00 |" in text
    assert "### All views, by turns, SF10, 0.01% of the rows changed" in text
    assert "`./run it again`" in text
    assert text.count("Not measured.") == 7


def test_figures_of_an_older_shape_are_not_measured(tmp_path):
    (tmp_path / "tpch_sf1.json").write_text('{"scale": 1.0, "views": {"q01": {"seconds": 1}}}')
    assert page.kept(tmp_path) == {}


@pytest.mark.parametrize("found", [contest, alone, change, means])
def test_figures_can_be_drawn(found, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from benchmarks import plots

    monkeypatch.setattr(plots, "PLOTS", tmp_path)
    figures = found()
    plots.draw("one", plots.PLOTTED[figures["kind"]](figures))
    assert (tmp_path / "one.svg").stat().st_size
    if figures["kind"] == "tpch":
        sizes = plots.same_change([{**figures, "scale": 10.0}, figures, {**figures, "scale": 30.0, "fractions": [0.1]}])
        assert [f["scale"] for f in sizes] == [1.0, 10.0]
        plots.draw("sizes", plots.by_size(sizes))

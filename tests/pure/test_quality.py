"""Severities, results, kept sums, quarantine and audits on a small pipeline, with Great Expectations itself.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from dataclasses import asdict, replace
from decimal import Decimal
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm
from ivm.checking import Checking
from ivm.errors import ConfigError, StateError
from ivm.planner.limits import EMBEDDED
from ivm.quality.docs import build_docs
from ivm.quality.expectations import build, judged, recorded
from ivm.quality.facts import keepable
from ivm.quality.large import inserted_sql
from ivm.quality.quarantine import expectation_of
from ivm.quality.results import load
from ivm.quality.state_checks import exact_frame, judged_rows, plain_frame
from ivm.quality.suites import as_rules
from ivm.quality.typed import by_schema
from ivm.quality.verdicts import entry_of, result_of
from ivm.storage.location import Location
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.int64())])
FEED = {"delta.enableChangeDataFeed": "true"}
NOT_NULL = {"expect_column_values_to_not_be_null": {"column": "name"}}
SMALL = {"expect_column_values_to_be_between": {"column": "amount", "max_value": 100}}


class Shop:
    """A pipeline over one source, with a view of its rows and one that reads that."""

    more: ClassVar[dict[str, str]] = {}

    def __init__(self, folder, state, delta=(), **options):
        self.folder, self.options = folder, options
        self.checks = {"rows_": {"state": list(state), "delta": list(delta)}}
        write_deltalake(str(folder / "t"), table([(1, "a", 1), (2, "b", 2), (3, "b", None)]), configuration=FEED)

    def pipe(self):
        """As a new process would open it."""
        made = ivm.Pipeline("shop", DuckSession(), self.folder / "root", checks=self.checks, **self.options)
        made.source("t", str(self.folder / "t"))
        made.view("rows_", "SELECT id, name, amount FROM t")
        made.view("names", "SELECT name, count(*) AS n FROM rows_ GROUP BY name")
        for name, sql in self.more.items():
            made.view(name, sql)
        return made

    def add(self, *rows):
        write_deltalake(str(self.folder / "t"), table(rows), mode="append")

    def refreshed(self, *rows):
        self.add(*rows)
        return self.pipe().refresh()

    def remove(self, where):
        DeltaTable(str(self.folder / "t")).delete(where)

    def published(self):
        return DeltaTable(str(self.folder / "root" / "rows_")).to_pyarrow_table().num_rows

    def results(self, scope="state"):
        """Of the last epoch that was checked, by expectation."""
        return {r.expectation: r for r in load(self.pipe().context.layout, 1, "rows_") if r.scope == scope}


def table(rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], SCHEMA)


def with_severity(rule, severity):
    ((name, arguments),) = rule.items()
    return {name: {**arguments, "severity": severity}}


@pytest.fixture(autouse=True)
def _here(without_a_jvm):
    """Spark's functions are built in this process."""


# -- severities -----------------------------------------------------------------------------------


def test_a_warning_is_published_recorded_and_shown(tmp_path):
    shop = Shop(tmp_path, [with_severity(SMALL, "warn")])
    assert shop.pipe().refresh().ok
    report = shop.refreshed((4, "c", 101))
    assert report.ok
    assert "expect_column_values_to_be_between" in report.views["rows_"].warning
    assert shop.published() == 4
    result = shop.results()["expect_column_values_to_be_between"]
    assert (result.success, result.holds, result.verdict, result.severity) == (False, False, "warned", "warn")
    assert "expect_column_values_to_be_between" in shop.pipe().status()["views"]["rows_"]["warning"]


def test_a_gate_cannot_be_released_but_is_planned_anew(tmp_path):
    shop = Shop(tmp_path, [with_severity(SMALL, "gate")])
    assert shop.pipe().refresh().ok
    assert set(held(shop.refreshed((4, "c", 101)))) == {"rows_", "names"}
    with pytest.raises(StateError, match=r"can't be released.*severity `gate`"):
        shop.pipe().release("rows_")
    assert not shop.pipe().quarantine("rows_").releasable
    shop.remove("amount > 100")
    assert shop.refreshed((5, "d", 7)).ok
    assert shop.published() == 4


#: Only Great Expectations itself finds out what is wrong with it.
REFUSED = {"expect_column_values_to_be_unique": {"column": "id", "mostly": 5}}


@pytest.mark.parametrize("scope", ["state", "delta"])
def test_a_gate_that_could_not_be_judged_cannot_be_released(tmp_path, scope):
    shop = Shop(tmp_path, [with_severity(SMALL, "gate")])
    assert shop.pipe().refresh().ok
    shop.checks["rows_"][scope].append(REFUSED)
    report = shop.refreshed((4, "c", 101))
    assert "its checks could not be run" in report.views["rows_"].error
    assert not shop.pipe().quarantine("rows_").releasable
    with pytest.raises(StateError, match=r"can't be released.*severity `gate`"):
        shop.pipe().release("rows_")
    shop.checks["rows_"] = {"state": [with_severity(SMALL, "warn"), REFUSED]}
    assert set(held(shop.pipe().refresh())) == {"rows_", "names"}, "what is built in wasn't judged either"
    assert shop.pipe().release("rows_").ok


def test_what_was_judged_stands_where_the_next_suite_cannot_be_run(tmp_path):
    shop = Shop(tmp_path, [REFUSED], [with_severity(SMALL, "gate")])
    assert set(held(shop.refreshed((4, "c", 101)))) == {"rows_", "names"}
    assert not shop.results("delta")["expect_column_values_to_be_between"].success
    assert shop.results("all")["checks"].severity == "gate"


def test_a_suite_of_great_expectations_is_taken_as_it_is(tmp_path):
    import great_expectations as gx
    import great_expectations.expectations as gxe

    small = gxe.ExpectColumnValuesToBeBetween(column="amount", max_value=100, meta={"severity": "gate", "by": "us"})
    suite = gx.ExpectationSuite(name="rows", expectations=[small, gxe.ExpectColumnValuesToBeUnique(column="id")])
    shop = Shop(tmp_path, [], [])
    shop.checks = {"rows_": {"state": suite, "delta": [gxe.ExpectColumnValuesToNotBeNull(column="id"), NOT_NULL]}}
    assert shop.pipe().refresh().ok
    assert len(shop.results("delta")) == 1, "two of one kind"
    assert set(held(shop.refreshed((4, "c", 101)))) == {"rows_", "names"}
    result = shop.results()["expect_column_values_to_be_between"]
    assert (result.success, result.severity, result.judged) == (False, "gate", "counts")
    assert shop.results()["expect_column_values_to_be_unique"].severity == "quarantine"
    shop.checks = {"rows_": {"state": [{"expect_more": {}}]}}
    with pytest.raises(ConfigError, match="a check 'expect_more', which Great Expectations does not know"):
        shop.pipe().refresh()


def test_a_suite_of_great_expectations_keeps_the_types_of_its_values():
    import great_expectations.expectations as gxe

    day, price = dt.date(2024, 1, 1), Decimal("0.10")
    suite = [
        gxe.ExpectColumnValuesToBeInSet(column="day", value_set=[day]),
        gxe.ExpectColumnValuesToBeInSet(column="price", value_set=[price, Decimal(2**53) + 1]),
        gxe.ExpectColumnValuesToBeBetween(column="day", min_value=day),
        gxe.ExpectColumnValuesToBeInSet(column="name", value_set={"a"}),
    ]
    rules = as_rules({"v": {"state": suite}})["v"]["state"]
    assert [next(iter(r.values())) for r in rules] == [
        {"column": "day", "value_set": [day], "severity": "critical"},
        {"column": "price", "value_set": [price, Decimal(2**53) + 1], "severity": "critical"},
        {"column": "day", "min_value": day, "severity": "critical"},
        {"column": "name", "value_set": ["a"], "severity": "critical"},
    ]
    rows = pa.table({"day": [day], "price": pa.array([2**53], pa.decimal128(20, 0)), "name": ["a"]})
    assert [e["success"] for e in judged(exact_frame(rows), build(rules, "v"))] == [True, False, True, True]


@pytest.mark.parametrize("rule", [SMALL, with_severity(SMALL, "quarantine"), with_severity(SMALL, "info")])
def test_a_quarantine_is_released_by_one_call_and_is_what_holds_by_default(tmp_path, rule):
    shop = Shop(tmp_path, [rule])
    assert shop.pipe().refresh().ok
    assert set(held(shop.refreshed((4, "c", 101)))) == {"rows_", "names"}
    assert shop.published() == 3
    assert shop.results()["expect_column_values_to_be_between"].severity == "quarantine"
    assert shop.pipe().release("rows_").ok
    assert shop.published() == 4
    # The kept sums of the batch that was held hold for what is published now.
    assert set(held(shop.refreshed((5, "c", 1)))) == {"rows_", "names"}
    assert shop.results()["expect_column_values_to_be_between"].judged == "counts"


def test_an_unknown_severity_is_refused(tmp_path):
    shop = Shop(tmp_path, [with_severity(SMALL, "fatal")])
    with pytest.raises(ConfigError, match=r"severity.*'fatal'.*warn, gate, quarantine"):
        shop.pipe().refresh()


def held(report):
    return [n for n, v in report.views.items() if "held back" in v.error]


# -- kept sums --------------------------------------------------------------------------------------

ALL_KINDS = [
    {"expect_table_row_count_to_be_between": {"min_value": 3, "max_value": 12}},
    {"expect_column_sum_to_be_between": {"column": "amount", "min_value": 0, "max_value": 60}},
    {"expect_column_mean_to_be_between": {"column": "amount", "max_value": 8}},
    {"expect_column_proportion_of_non_null_values_to_be_between": {"column": "amount", "min_value": 0.6}},
    {"expect_column_distinct_values_to_be_in_set": {"column": "name", "value_set": ["a", "b", "c"]}},
    {"expect_column_distinct_values_to_contain_set": {"column": "name", "value_set": ["a", "b"]}},
    {"expect_column_values_to_be_unique": {"column": "id"}},
    {"expect_column_unique_value_count_to_be_between": {"column": "name", "max_value": 3}},
    {"expect_column_proportion_of_unique_values_to_be_between": {"column": "amount", "min_value": 0.4}},
    {"expect_column_values_to_be_between": {"column": "amount", "min_value": 0, "mostly": 0.9}},
    {"expect_column_values_to_not_be_null": {"column": "name", "mostly": 0.8}},
    {"expect_column_values_to_match_regex": {"column": "name", "regex": "^[abc]$"}},
]


def test_kept_sums_judge_every_epoch_as_great_expectations_judges_all_rows(tmp_path):
    shop = Shop(tmp_path, [with_severity(r, "warn") for r in ALL_KINDS])
    assert shop.pipe().refresh().ok
    draw, verdicts = random.Random(3), set()
    for epoch in range(4):
        shop.remove(f"id % 5 = {epoch % 5}")
        new = [
            (draw.randint(1, 9), draw.choice([None, "a", "b", "c", "d"]), draw.choice([None, draw.randint(-2, 9)]))
            for _ in range(draw.randint(1, 6))
        ]
        assert shop.refreshed(*new).ok
        mine = shop.results()
        rows = DeltaTable(str(tmp_path / "root" / "rows_")).to_pyarrow_table()
        theirs = judged(exact_frame(rows), build(ALL_KINDS, "rows_"))
        assert {r.judged for r in mine.values()} == {"counts"}
        expected = {e["expectation_config"]["type"]: bool(e["success"]) for e in theirs}
        assert {name: r.success for name, r in mine.items()} == expected
        counted = {e["expectation_config"]["type"]: e["result"].get("unexpected_count") for e in theirs}
        assert {n: r.unexpected for n, r in mine.items() if r.elements is not None} == {
            n: counted[n] for n, r in mine.items() if r.elements is not None
        }
        verdicts |= {(name, r.success) for name, r in mine.items()}
    assert len({name for name, success in verdicts if not success}) > 2  # the rows went both ways


@pytest.mark.parametrize(
    "rule",
    [
        {"expect_column_values_to_be_between": {"column": "amount", "max_value": 2.0**53}},
        {"expect_column_values_to_be_in_set": {"column": "amount", "value_set": [2**53, 1.5]}},
    ],
)
def test_large_integers_beside_floats_are_judged_over_all_rows(tmp_path, rule):
    """One is rounded to the bound where it comes without NULLs, and is beyond it where it goes with them."""
    shop = Shop(tmp_path, [with_severity(rule, "warn")])
    shop.remove("id > 0")
    shop.add((1, "a", 2**53 + 1))
    assert shop.pipe().refresh().ok
    shop.remove("id = 1")
    assert shop.refreshed((2, "a", None)).ok
    assert shop.refreshed((3, "a", 2**60)).ok
    (result,) = shop.results().values()
    assert (result.success, result.unexpected, result.judged) == (False, 1, "rows")


@pytest.mark.parametrize("wrong", [{"unexpected": -2}, {"unexpected": 9}, {"missing": -3}])
def test_counts_that_cannot_be_are_counted_anew(tmp_path, wrong):
    shop = Shop(tmp_path, [SMALL])
    assert shop.pipe().refresh().ok
    facts = str(tmp_path / "root" / "_ivm" / "facts")
    rows = DeltaTable(facts).to_pyarrow_table().to_pylist()
    damaged = [
        {**r, "numbers": json.dumps(json.loads(r["numbers"]) | wrong)} if "unexpected" in r["numbers"] else r
        for r in rows
    ]
    write_deltalake(facts, pa.Table.from_pylist(damaged), mode="overwrite")
    assert shop.refreshed((4, "c", 5)).ok
    result = shop.results()["expect_column_values_to_be_between"]
    assert (result.judged, result.unexpected, result.elements) == ("rows", 0, 4)
    assert shop.refreshed((5, "c", 6)).ok
    result = shop.results()["expect_column_values_to_be_between"]
    assert (result.judged, result.unexpected, result.elements) == ("counts", 0, 5)


def test_sums_of_another_epoch_are_not_relied_on(tmp_path):
    shop = Shop(tmp_path, [SMALL, {"expect_column_max_to_be_between": {"column": "amount", "max_value": 100}}])
    assert shop.pipe().refresh().ok
    assert shop.refreshed((4, "c", 5)).ok
    facts = str(tmp_path / "root" / "_ivm" / "facts")
    rows = DeltaTable(facts).to_pyarrow_table().to_pylist()
    wrong = json.dumps({"rows": 4, "missing": 0, "unexpected": 4})
    stale = pa.Table.from_pylist([{**r, "epoch": r["epoch"] - 1, "numbers": wrong} for r in rows])
    write_deltalake(facts, stale, mode="overwrite")
    assert shop.refreshed((5, "c", 6)).ok
    found = shop.results()
    assert found["expect_column_values_to_be_between"].judged.startswith("rows: no sums are kept of epoch")
    assert found["expect_column_max_to_be_between"].judged == "rows"
    assert shop.refreshed((6, "c", 6)).ok
    assert shop.results()["expect_column_values_to_be_between"].judged == "counts"


def test_sums_that_cannot_be_read_are_counted_anew_and_so_are_those_of_a_view_built_anew(tmp_path):
    shop = Shop(tmp_path, [SMALL])
    assert shop.pipe().refresh().ok
    for file in (tmp_path / "root" / "_ivm" / "facts" / "_delta_log").iterdir():
        file.write_bytes(b"{")
    assert shop.refreshed((4, "c", 5)).ok
    assert shop.results()["expect_column_values_to_be_between"].judged.startswith("rows: ")
    assert shop.pipe().backfill("rows_").ok
    assert shop.refreshed((5, "c", 6)).ok
    result = shop.results()["expect_column_values_to_be_between"]
    assert (result.judged, result.elements, result.unexpected) == ("counts", 5, 0)


def test_sums_of_rows_that_only_the_engine_holds_are_counted_by_statements(tmp_path):
    """As of a view with more rows than this process judges: only what needs no row in this process is asked here."""
    rules = [with_severity(r, "warn") for r in ALL_KINDS[:9]]
    shop = Shop(tmp_path, rules, limits=replace(EMBEDDED, judged_rows=1))
    shop.add((3, None, 2**62), (4, "c", 2**62))
    verdicts = []
    for row in ((5, "e", None), (6, "b", 4)):
        assert shop.pipe().refresh().ok
        verdicts.append({(n, r.success, r.observed, r.unexpected, r.judged[:4]) for n, r in shop.results().items()})
        shop.add(row)
    assert {v[-1] for v in verdicts[0] if "row_count" not in v[0]} == {"rows"}
    assert {v[-1] for v in verdicts[1]} == {"coun"}


def test_integers_beside_nulls_are_judged_as_they_are():
    rows = pa.table({"amount": pa.array([2**53 + 1, None], pa.int64())})
    assert exact_frame(rows)["amount"][0] == 2**53 + 1
    assert plain_frame(rows)["amount"].dtype == "float64"


def test_what_a_delta_brings_is_judged_as_often_as_it_comes(tmp_path):
    unique = {"expect_column_values_to_be_unique": {"column": "id"}}
    shop = Shop(tmp_path, [], [unique, {"expect_table_row_count_to_be_between": {"max_value": 3}}])
    assert shop.pipe().refresh().ok
    assert set(held(shop.refreshed(*[(7, "c", 5)] * 9))) == {"rows_", "names"}
    assert {r.success for r in shop.results("delta").values()} == {False}
    pipe = shop.pipe()
    assert {f.expectation: f.count for f in pipe.quarantine("rows_").failing}["expect_column_values_to_be_unique"] == 9
    outcome = pipe.context.log.outcomes(2)["rows_"]
    assert pipe.context.spark().sql(inserted_sql(pipe.context, 2, outcome)).count() == 9


def test_integers_beside_nulls_are_judged_as_they_are_in_a_delta(tmp_path):
    most = [
        {f"expect_column_{what}_to_be_between": {"column": "amount", "max_value": 2**53}} for what in ("values", "max")
    ]
    shop = Shop(tmp_path, most[1:], most)
    assert shop.pipe().refresh().ok
    assert set(held(shop.refreshed((8, "c", 2**53 + 1), (9, "d", None)))) == {"rows_", "names"}
    assert {r.success for scope in ("delta", "state") for r in shop.results(scope).values()} == {False}


def test_what_great_expectations_cannot_judge_of_exact_values_it_judges_of_plain_ones():
    rows = pa.table({"n": pa.array([1, None], pa.int64()), "m": [2, 3]})
    total = {"expect_multicolumn_sum_to_equal": {"column_list": ["n", "m"], "sum_total": 3, "mostly": 0.5}}
    typed = {"expect_column_values_to_be_of_type": {"column": "n", "type_": "int64"}}
    different = {"expect_compound_columns_to_be_unique": {"column_list": ["n", "m"]}}
    entries, exact = judged_rows(rows, build([total, typed, different], "v"))
    assert [(e["success"], x) for e, x in zip(entries, exact, strict=True)] == [
        (True, False),
        (True, True),
        (True, True),
    ]


def of_type(column, *names):
    """A rule for one name, and one for a list of them."""
    return [
        *({"expect_column_values_to_be_of_type": {"column": column, "type_": n}} for n in names),
        {"expect_column_values_to_be_in_type_list": {"column": column, "type_list": ["nothing", *names]}},
    ]


@pytest.mark.parametrize("by_statements", [False, True])
def test_a_type_is_that_of_the_schema_by_the_names_of_either_engine(tmp_path, by_statements):
    """Great Expectations would take an integer beside a NULL for a float in pandas, and knows no int64 in Spark."""
    met = of_type("amount", "int64", "LongType", "IntegralType") + of_type("name", "str", "StringType")
    unmet = of_type("amount", "float64", "DoubleType") + of_type("name", "int64", "LongType")
    rules = [with_severity(r, "warn") for r in met + unmet]
    few = {"limits": replace(EMBEDDED, judged_rows=1)} if by_statements else {}
    shop = Shop(tmp_path, rules, [] if by_statements else rules, **few)
    assert shop.pipe().refresh().ok
    assert shop.refreshed((4, None, None)).ok
    results = [r for r in load(shop.pipe().context.layout, 1, "rows_") if r.scope in ("state", "delta")]
    assert len(results) == len(rules) * (1 if by_statements else 2)
    for scope in {r.scope for r in results}:
        mine = [r.success for r in results if r.scope == scope]
        assert mine == [True] * len(met) + [False] * len(unmet)
    assert {r.observed for r in results} == {"LongType", "StringType"}


def test_types_of_all_kinds_have_a_name_in_spark():
    schema = pa.schema(
        [
            ("a", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.decimal128(9, 2))]))),
            ("m", pa.map_(pa.string(), pa.date32())),
            ("t", pa.timestamp("us", "UTC")),
            ("u", pa.timestamp("us")),
            ("d", pa.decimal128(38, 10)),
            ("b", pa.binary()),
            ("f", pa.float32()),
            ("o", pa.bool_()),
            ("s", pa.struct([("x", pa.int8())])),
        ]
    )
    names = "ArrayType MapType TimestampType TimestampNTZType DecimalType BinaryType FloatType BooleanType StructType"
    rules = [of_type(c, n)[0] for c, n in zip(schema.names, names.split(), strict=True)]
    found = by_schema(schema, build(rules, "v"))
    assert [found[i]["success"] for i in range(len(rules))] == [True] * len(rules)
    found = by_schema(schema, build([of_type(c, "StringType")[0] for c in schema.names], "v"))
    assert not any(e["success"] for e in found.values())


# -- results, redaction, quarantine -------------------------------------------------------------------


def test_values_are_nowhere_unless_they_may_be_shown(tmp_path):
    secret = "a-name-nobody-may-read"
    rules = [{"expect_column_values_to_be_in_set": {"column": "name", "value_set": ["a", "b"]}}]
    shop = Shop(tmp_path, [], rules)
    assert shop.pipe().refresh().ok
    report = shop.refreshed((4, secret, 5))
    pipe = shop.pipe()
    layout = pipe.context.layout
    build_docs(load(layout), layout.checks, Location.of(str(tmp_path / "docs")), "shop")
    texts = [json.dumps(asdict(report)), json.dumps([asdict(r) for r in load(layout)]), json.dumps(pipe.status())]
    texts += [f.read_text() for f in (tmp_path / "docs").iterdir()]
    texts += [f.read_text() for f in (tmp_path / "root" / "_ivm" / "checks").glob("*.json")]
    assert len(texts) > 5
    assert not [t for t in texts if secret in t]
    found = pipe.quarantine("rows_")
    assert secret not in json.dumps(asdict(found))
    assert found.failing[0].rows == ({"id": "<int64>", "name": "<string>", "amount": "<int64>"},)
    assert pipe.quarantine("rows_", show=True).failing[0].rows == ({"id": 4, "name": secret, "amount": 5},)
    shop.options["checking"] = Checking(values="shown")
    assert secret in shop.refreshed((5, "a", 5)).views["rows_"].error


def test_no_exception_quotes_a_value(tmp_path, monkeypatch):
    secret = "O'Hidden"
    total = {"expect_column_sum_to_be_between": {"column": "name", "max_value": 3}}
    shop = Shop(tmp_path, [total, {"expect_column_max_to_be_between": {"column": "none"}}])
    shop.pipe().refresh()
    message = shop.results()["expect_column_sum_to_be_between"].message
    assert message == "TypeError"
    assert (
        shop.results()["expect_column_max_to_be_between"].message
        == 'Error: The column "none" in BatchData does not exist.'
    )

    layout = shop.pipe().context.layout
    build_docs(load(layout), layout.checks, Location.of(str(tmp_path / "docs")), "shop")
    assert "TypeError" in next((tmp_path / "docs").glob("*-rows_-state.html")).read_text()

    def refuse(*_):
        raise ValueError(f"could not read {secret!r}")

    monkeypatch.setattr("ivm.quality.gate.check_state", refuse)
    report = shop.refreshed((4, "c", 5))
    assert "its checks could not be run: ValueError" in report.views["rows_"].error
    assert secret not in json.dumps(asdict(report))


def test_the_index_tells_counts_of_what_was_kept_while_values_were_shown(tmp_path):
    few = {"expect_column_values_to_be_in_set": {"column": "name", "value_set": ["a", "b"]}}
    shop = Shop(tmp_path, [], [few], checking=Checking(values="shown"))
    assert shop.pipe().refresh().ok
    shop.refreshed((4, "hide-me", 5))
    layout = shop.pipe().context.layout
    for show in (True, False):
        page = (
            build_docs(load(layout), layout.checks, Location.of(str(tmp_path / "docs")), "shop", show).read().decode()
        )
        assert ("hide-me" in page) is show
        assert "1 of 1 rows" in page


def test_quarantine_shows_the_failing_rows_of_each_expectation(tmp_path):
    total = {"expect_column_sum_to_be_between": {"column": "amount", "max_value": 100}}
    shop = Shop(tmp_path, [SMALL, NOT_NULL, total])
    assert shop.pipe().refresh().ok
    shop.refreshed((4, None, 5), (5, "x", 101), (6, None, 102))
    found = shop.pipe().quarantine("rows_", limit=1, show=True)
    by_name = {f.expectation: f for f in found.failing}
    small = by_name["expect_column_values_to_be_between"]
    assert (small.count, len(small.rows)) == (2, 1)
    assert small.rows[0]["amount"] in (101, 102)
    nulls = by_name["expect_column_values_to_not_be_null"]
    assert (nulls.count, len(nulls.rows), nulls.rows[0]["name"]) == (2, 1, None)
    assert by_name["expect_column_sum_to_be_between"].note.startswith("it is about the whole view")
    assert (found.rows_in, found.rows_out, found.releasable) == (3, 0, True)
    assert shop.pipe().quarantine("names").because == "rows_"
    assert shop.pipe().discard("rows_").ok
    with pytest.raises(StateError, match="Nothing of 'rows_' is held back"):
        shop.pipe().quarantine("rows_")


def test_a_view_that_waits_with_no_rows_of_its_own_is_shown_without_any(tmp_path, monkeypatch):
    shop = Shop(tmp_path, [SMALL])
    shop.more = {"losses": "SELECT id, amount FROM rows_ WHERE amount < 0"}
    assert shop.pipe().refresh().ok
    assert set(held(shop.refreshed((4, "c", 101)))) == {"rows_", "names", "losses"}
    (tmp_path / "elsewhere").mkdir()
    pq.write_table(table([(9, "z", 9)]), tmp_path / "elsewhere" / "part.parquet")
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = shop.pipe().quarantine("losses")
    assert (found.because, found.rows_in, found.rows_out, found.failing) == ("rows_", 0, 0, ())


def test_what_is_looked_at_is_judged_by_the_rule_with_its_types():
    day = dt.date(2024, 1, 1)
    rules = [
        {"expect_column_values_to_be_in_set": {"column": "day", "value_set": [v], "severity": "gate", "mostly": 0.9}}
        for v in (dt.date(2023, 1, 1), day)
    ]
    rows = pa.table({"day": [day, None]})
    for entry in (judged(exact_frame(rows), build(rules, "v"))[1], entry_of(*plainly_judged(rules[1], rows))):
        result = recorded(Location.of("memory"), "v", 1, "key", [{**entry, "success": True}], 0.0)[0]
        kept = replace(result, arguments=json.loads(json.dumps(result.arguments, default=str)))
        assert expectation_of(kept, rules).value_set == [day]
        assert expectation_of(kept, rules[:1]).value_set == ["2024-01-01"]


def plainly_judged(rule, rows):
    expectation = keepable(0, "v", rule, rows.schema)
    return expectation, *result_of(expectation, {"rows": 2, "missing": 1, "unexpected": 0}), "counts"


def test_results_are_a_delta_table_with_a_row_an_expectation_and_epoch(tmp_path):
    shop = Shop(tmp_path, [SMALL, NOT_NULL])
    assert shop.pipe().refresh().ok
    assert shop.refreshed((4, "c", 5)).ok
    rows = DeltaTable(str(tmp_path / "root" / "_ivm" / "check_results")).to_pyarrow_table().to_pylist()
    mine = [r for r in rows if r["view"] == "rows_" and r["scope"] == "state"]
    assert sorted((r["epoch"], r["expectation"], r["success"], r["elements"]) for r in mine) == [
        (epoch, name, True, size)
        for epoch, size in ((1, 3), (2, 4))
        for name in ("expect_column_values_to_be_between", "expect_column_values_to_not_be_null")
    ]
    assert {r.epoch for r in shop.pipe().checks("rows_", last=1)} == {2}
    for file in (tmp_path / "root" / "_ivm" / "check_results" / "_delta_log").iterdir():
        file.write_bytes(b"{")
    assert shop.refreshed((5, "c", 5)).ok
    assert {r.epoch for r in shop.pipe().checks()} == {3}


# -- audits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["full", "sample", "checksum"])
def test_an_audit_finds_what_was_changed_behind_our_back(tmp_path, how):
    shop = Shop(tmp_path, [])
    assert shop.pipe().refresh().ok
    assert shop.refreshed(*((i, None if i % 3 else "x", i) for i in range(10, 60))).ok
    for view in ("rows_", "names"):
        found = shop.pipe().audit(view, how, sample=0.9)
        assert found, str(found)
    assert shop.pipe().audit("names", how, sample=1).rows == 3 + 1
    DeltaTable(str(tmp_path / "root" / "names")).update(updates={"n": "n + 1"}, predicate="name = 'x'")
    found = shop.pipe().audit("names", how, sample=1)
    assert not found
    assert "DIFFERS" in str(found)


def test_a_checksum_tells_a_null_that_moved_to_another_column(tmp_path):
    shop = Shop(tmp_path, [])
    assert shop.refreshed((7, None, 8)).ok
    DeltaTable(str(tmp_path / "root" / "rows_")).update(
        updates={"id": "NULL", "amount": "7", "name": "'8'"}, predicate="id = 7"
    )
    assert not shop.pipe().audit("rows_", "checksum")


def test_a_sample_is_of_other_groups_each_time_and_of_about_its_share(tmp_path):
    shop = Shop(tmp_path, [])
    assert shop.refreshed(*((i, f"n{i}", i) for i in range(10, 410))).ok
    first, second = shop.pipe().audit("names", "sample", 0.25), shop.refreshed((1000, "z", 1))
    assert second.ok
    again = shop.pipe().audit("names", "sample", 0.25)
    assert 40 < first.rows < 180
    assert 40 < again.rows < 180
    assert first.by == ("name",)
    with pytest.raises(ConfigError, match="above 0, at most 1"):
        shop.pipe().audit("names", "sample", 0)

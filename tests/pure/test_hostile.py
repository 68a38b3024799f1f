"""Bad input: whatever a person writes or passes is taken for what it means, or refused with one sentence and a hint.

In CI some hundred cases of each kind with fixed seeds; with IVM_NIGHTLY=1 IVM_HOSTILE of them (10,000 by default) from
IVM_SEED on.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import traceback
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from sqlglot.errors import SqlglotError

import ivm
from ivm import parameters
from ivm.cli import main as cli
from ivm.cli.failures import ExitCode
from ivm.config import load_folder
from ivm.cron import check_schedule
from ivm.errors import IvmError, StateError, ViewError
from ivm.names import check_name
from ivm.parameters import LANES, MODES
from ivm.plan.nodes import Column, Relation
from ivm.quality.catalog import check_rules
from ivm.refresh.records import FORMAT, Cursor, EpochPlan, Manifest, Outcome, UnitState, ViewTask, from_json, to_json
from ivm.refresh.views import View, compile_view, in_order
from ivm.sql.condition import parse_condition
from ivm.sql.text import query_tree
from ivm.storage.location import Location
from tests.corpus import TABLES, entries
from tests.pure.duck import DuckAnalyzer
from tests.pure.hostile import TEXTS, Rng

NIGHTLY = os.environ.get("IVM_NIGHTLY") == "1"
SEED = int(os.environ.get("IVM_SEED", "0"))


def seeds(share: float, in_ci: int) -> range:
    """The seeds of one kind of input, which has a share of all cases of a night."""
    return range(SEED, SEED + (int(int(os.environ.get("IVM_HOSTILE", "10000")) * share) if NIGHTLY else in_ci))


class Cases:
    """Runs cases and counts how they end; whatever is neither taken nor refused in our own words is a finding."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.ends: Counter[str] = Counter()
        self.findings: list[str] = []

    @contextlib.contextmanager
    def case(self, seed: int, what: object = ""):
        try:
            yield
            self.ends["taken"] += 1
        except IvmError as error:
            told(error)
            self.ends[type(error).__name__] += 1
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - that is what is looked for
            at = traceback.extract_tb(error.__traceback__)[-1]
            self.findings.append(
                f"{self.kind} of seed {seed}: {type(error).__name__}: {str(error)[:300]} "
                f"at {at.filename}:{at.lineno} {str(what)[:300]!r}"
            )

    def judge(self) -> None:
        print(self.kind, dict(self.ends), *self.findings, sep="\n", flush=True)
        assert not self.findings, "\n".join([f"{len(self.findings)} findings", *self.findings[:20]])
        assert len(self.ends) >= 2, self.ends
        assert min(self.ends["taken"], sum(self.ends.values()) - self.ends["taken"]) > 5, self.ends


def told(error: IvmError) -> None:
    """An error of ours is a sentence and a hint, of a readable length, that a terminal can show."""
    assert error.message.strip(), repr(error)
    assert error.hint.strip(), error.message
    assert len(str(error)) < 10_000, str(error)[:300]
    assert "Traceback" not in str(error)


# -- pipeline folders -------------------------------------------------------------------------------

FILES = {
    "pipeline.yml": {
        "name": "shop",
        "root": "./lake",
        "lane": "auto",
        "schedule": "0 5 * * *",
        "retention": {"hours": 24, "epochs": 10},
        "sources": {
            "orders": {
                "path": "./orders",
                "primary_key": ["id"],
                "foreign_keys": {"customer": "customers"},
                "effective_date": "day",
            },
            "customers": {"path": "./customers", "primary_key": "customer"},
        },
        "views": {"totals": {"mode": "auto"}, "large": {"mode": "full"}},
        "checks": {"values": "hidden", "actions": [{"type": "slack", "name": "team", "slack_webhook": "${HOOK}"}]},
        "audit": {"schedule": "@weekly", "how": "sample", "sample": 0.1, "views": ["totals"]},
    },
    "views/totals.sql": (
        "-- mode: auto\nSELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer"
    ),
    "views/large.sql": "SELECT id, amount FROM orders WHERE amount > 10",
    "checks.yml": {
        "totals": {"delta": [{"expect_column_values_to_not_be_null": {"column": "customer", "severity": "warn"}}]},
        "large": {
            "state": [{"expect_column_values_to_be_between": {"column": "amount", "min_value": 10, "mostly": 0.9}}]
        },
    },
}


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def clear(folder: Path) -> None:
    for name in ("pipeline.yml", "checks.yml"):
        (folder / name).unlink(missing_ok=True)
    for file in folder.glob("*.sql"):
        file.unlink()
    for file in (folder / "views").glob("*"):
        file.unlink()


@pytest.fixture
def shop(tmp_path):
    """A pipeline folder with its sources: Delta tables with a change feed, made without Spark."""
    feed = {"delta.enableChangeDataFeed": "true"}
    orders = pa.table({"id": [1, 2], "customer": ["a", "b"], "amount": [10, 20], "day": pa.array([0, 1], pa.date32())})
    write_deltalake(str(tmp_path / "orders"), orders, configuration=feed)
    write_deltalake(str(tmp_path / "customers"), pa.table({"customer": ["a", "b"]}), configuration=feed)
    write(
        tmp_path,
        Rng(0).folder({}) | {n: d.encode() if isinstance(d, str) else json.dumps(d).encode() for n, d in FILES.items()},
    )
    return tmp_path


def means_something(config) -> None:
    check_name(config.name, "pipeline")
    assert Path(config.root).is_absolute()
    assert "\0" not in config.root
    assert config.lane in LANES
    check_schedule(config.schedule, "schedule")
    sources = {s.name: s for s in config.sources}
    for source in config.sources:
        check_name(source.name, "source")
        assert isinstance(source.location, str)
        assert source.location.strip()
        for column in (*source.primary_key, *(c for cs, _ in source.foreign_keys for c in cs)):
            assert isinstance(column, str)
            assert column.strip()
        assert all(any(to == s.lower() for s in sources) for _, to in source.foreign_keys)
        assert isinstance(source.effective_date, str)
    for view in config.views:
        check_name(view.name, "view")
        assert view.sql.strip()
        assert view.mode in MODES
    for view, checks in config.checks.items():
        assert view in {v.name for v in config.views}
        for rules in (checks or {}).values():
            check_rules(view, rules or [], view)


def test_hostile_folders_are_refused_or_mean_something(shop, no_spark):
    cases = Cases("folder")
    for seed in seeds(0.4, 400):
        clear(shop)
        write(shop, Rng(seed).folder(FILES))
        with cases.case(seed):
            means_something(load_folder(shop))
            in_order(ivm.Pipeline.load(shop).context.views)
    cases.judge()
    assert {p.name for p in shop.iterdir() if p.is_dir()} == {"orders", "customers", "views"}  # loading writes nothing


# -- SQL --------------------------------------------------------------------------------------------

RELATIONS = {
    name: Relation(
        name,
        "source",
        tuple(Column(*c.split(" ", 1)) for c in re.split(r", (?![^<(]*[>)])", columns)),
        ("k",) if "k int" in columns else (),
    )
    for name, columns in TABLES.items()
}


class Analyzer(DuckAnalyzer):
    """DuckDB's answer, and where it has none, columns made up from the names.

    So the compiler is led beyond what DuckDB knows.
    """

    def schema(self, sql):
        with contextlib.suppress(duckdb.Error, SqlglotError, RuntimeError, LookupError, ValueError):
            return super().schema(sql)
        names = query_tree(sql).named_selects
        if not names or "*" in names:
            raise ViewError("The engine refuses this SQL.", "Write it otherwise.")
        return tuple(Column(n, "int") for n in names)


def test_hostile_sql_is_refused_or_compiled(tmp_path):
    corpus, cases, defects = entries(), Cases("SQL"), Counter()
    for seed in seeds(0.3, 250):
        rng = Rng(seed)
        sql = rng.sql(rng.choice(corpus).sql)
        with cases.case(seed, sql):
            parameters.text(sql, "The SQL of view 'v'")  # as all who declare a view
            compiled = compile_view(View("v", sql), RELATIONS, Analyzer, Location.of(str(tmp_path)))
            defects.update(r.reason for r in compiled.program.refusals if r.code == "defect")
    print(dict(defects))
    cases.judge()


# -- stored records ---------------------------------------------------------------------------------

STATE = UnitState("d", True, 1, 1, 0, 2, 3, 10, "{}", ("k",), {"orders": Cursor(4, "id", 0)})
RECORDS = (
    Manifest(2, {"orders": Cursor(4, "id")}, {"totals": STATE}),
    EpochPlan(3, {"orders": Cursor(5, "id")}, {"totals": ViewTask("incremental", "", "changed", "d")}),
    Outcome("totals", "totals", "incremental", "", "changed", "merge", STATE),
)


def test_hostile_records_are_refused_or_read():
    cases = Cases("record")
    for seed in seeds(0.05, 100):
        rng = Rng(seed)
        record = rng.choice(RECORDS)
        data = json.loads(to_json(record))
        text = json.dumps(rng.data(data)) if rng.random() < 0.7 else rng.text(json.dumps(data))
        with cases.case(seed, text):
            from_json(type(record), text)
    cases.judge()


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_a_record_of_a_newer_ivm_is_refused(record):
    data = json.loads(to_json(record))
    assert from_json(type(record), json.dumps(data)) == record
    with pytest.raises(StateError, match=r"newer ivm.*Upgrade"):
        from_json(type(record), json.dumps(data | {"format": FORMAT + 1, "invented": 1}))
    for text in ("", "null", "5", "[]", json.dumps(data)[:-5]):
        with pytest.raises(StateError):
            from_json(type(record), text)


# -- the command line -------------------------------------------------------------------------------


class NoSpark:
    """A session that is reached by whatever passed all checks; it takes one statement at a time."""

    class ReachedError(IvmError):
        """Spark was asked."""

    def sql(self, text, *args):
        query_tree(text.replace("DESCRIBE DETAIL", "SELECT * FROM").replace("DESCRIBE HISTORY", "SELECT * FROM"))
        raise self.ReachedError("Spark was asked.", "There is none in these tests.")

    def __getattr__(self, name):
        raise self.ReachedError("Spark was asked.", "There is none in these tests.")


@pytest.fixture
def inside(shop, monkeypatch):
    """What commands write stays in the test's own folder, whatever path they are told: elsewhere nothing is made."""
    real = Path.mkdir

    def mkdir(path, *args, **kwargs):
        if not path.resolve().is_relative_to(shop.resolve()):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    return shop


@pytest.fixture
def no_spark(inside, monkeypatch):
    monkeypatch.setattr("ivm.declarations.get_session", lambda **_: NoSpark())
    monkeypatch.setattr("ivm.declarations.check_visible", lambda *_: None)
    monkeypatch.setattr("ivm.refresh.context.SparkAnalyzer", lambda spark: Analyzer())
    monkeypatch.setattr("ivm.demo.main.run_demo", lambda *a: 0)
    monkeypatch.setattr("ivm.demo.bench.run_bench", lambda *a: 0)


def command(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and error of a command, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        cli.main(list(arguments))
    return end.value.code, out.getvalue(), err.getvalue()


def strict(text: str):
    """JSON as others read it, without NaN."""
    return json.loads(text, parse_constant=lambda c: pytest.fail(f"{c} is no JSON"))


def judged(arguments: list[str]) -> int:
    code, out, err = command(*arguments)
    assert code in set(ExitCode), f"{code}: {err[-600:]}"
    assert code != ExitCode.DEFECT, err[-600:]
    assert "Traceback" not in out + err, err[-600:]
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", out + err), "control characters"
    if code not in (ExitCode.DONE, ExitCode.FAILED):
        assert "error: " in err or not "".join(arguments), "no sentence"
    if "--json" in arguments and "--help" not in arguments and code != ExitCode.DONE:
        assert set(strict(out)) == {"error", "message"} or strict(out)
    return code


def test_hostile_commands_end_with_a_code_and_a_sentence(shop, no_spark, monkeypatch):
    monkeypatch.chdir(shop)
    monkeypatch.setenv("NO_COLOR", "1")
    cases, codes = Cases("command"), Counter()
    for seed in seeds(0.15, 250):
        arguments = Rng(seed).arguments(("totals", "large"), str(shop))
        with cases.case(seed, arguments):
            codes[judged(arguments)] += 1
    print(dict(codes))
    cases.ends["refused"] = codes[ExitCode.FAILED] + codes[ExitCode.USAGE]
    cases.judge()


# -- parameters of the Python API -------------------------------------------------------------------


def calls(rng: Rng, pipe, folder: Path):
    """One call of each method, with values of any kind where an argument is expected."""
    v, t = rng.value, lambda: rng.choice(TEXTS)
    return rng.choice(
        [
            lambda: ivm.Pipeline(v(), root=folder / "other"),
            lambda: ivm.Pipeline("p", root=v()) if not isinstance(v, str) else None,
            lambda: ivm.Pipeline("p", root=folder / "other", lane=v()),
            lambda: ivm.Pipeline("p", root=folder / "other", checks=v()),
            lambda: ivm.Pipeline.load(v()),
            lambda: pipe.source(v(), folder / "orders"),
            lambda: pipe.source("s1", v()),
            lambda: pipe.source("s2", folder / "orders", primary_key=v()),
            lambda: pipe.source("s3", folder / "orders", foreign_keys=v()),
            lambda: pipe.source("s3", folder / "orders", foreign_keys={t(): t()}),
            lambda: pipe.source("s4", folder / "orders", effective_date=v()),
            lambda: pipe.view(v(), "SELECT id FROM orders"),
            lambda: pipe.view("w1", v()),
            lambda: pipe.view("w2", "SELECT id FROM orders", v()),
            lambda: pipe.view("w3", rng.sql("SELECT id, amount FROM orders WHERE amount > 10")),
            lambda: pipe.plan(v()),
            lambda: pipe.refresh(v() or ["x"]),
            lambda: pipe.read(v()),
            lambda: pipe.read("totals", v()),
            lambda: pipe.read("totals", as_of=v()),
            lambda: pipe.read("totals", revision=v()),
            lambda: pipe.explain(v()),
            lambda: pipe.verify(v()),
            lambda: pipe.revisions(v()),
            lambda: pipe.compact(v()),
            lambda: pipe.backfill(v()),
            lambda: pipe.backfill("totals", day=v()),
            lambda: pipe.backfill("totals", v()),
            lambda: parse_condition(rng.text("customer = 'a' AND amount > 10")),
        ]
    )


def test_hostile_parameters_are_refused_or_mean_something(shop, no_spark, monkeypatch):
    monkeypatch.chdir(shop)
    cases = Cases("call")
    for seed in seeds(0.1, 250):
        rng = Rng(seed)
        pipe = ivm.Pipeline.load(shop)
        with cases.case(seed):
            calls(rng, pipe, shop)()
    cases.judge()

"""Pipeline folders: what is read, and what is refused by name."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import ivm
from ivm.auditing import Audits
from ivm.checking import Checking
from ivm.cli.template import write_template
from ivm.config import load_folder
from ivm.cron import check_schedule
from ivm.errors import ConfigError
from ivm.housekeeping import Retention
from ivm.quality.catalog import arguments_of, classes


@pytest.fixture
def folder(tmp_path):
    write_template(tmp_path / "shop")
    return tmp_path / "shop"


def test_the_template_is_a_pipeline(folder):
    config = load_folder(folder)
    assert config.name == "shop"
    assert config.root == str(folder / "lake")
    assert config.sources[0].location == str(folder / "sources" / "orders")
    assert config.sources[0].primary_key == ("id",)
    assert config.views[0].name == "customer_totals"
    assert "customer_totals" in config.checks


def test_the_template_overwrites_nothing(folder):
    with pytest.raises(ConfigError, match="already holds a pipeline"):
        write_template(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: x\nroot: r\nsources: {}\nshedule: daily",
            r"unknown key 'shedule' in the top level.*Allowed there: .*schedule",
        ),
        ("name: x\nroot: r\nsources: {o: {path: p, key: id}}", r"unknown key 'key' in sources.o"),
        ("name: x\nroot: r\nsources: {o: {path: p, table: t}}", "either a path or a table"),
        ("name: x\nroot: r\nsources: [o]", "sources must be a mapping"),
        ("name: x\nsources: {}", "has no 'root'"),
        ("name: [x\n", "not valid YAML"),
        ("name: x\nroot: r\nsources: {}\nviews: {absent: {mode: full}}", "no views/absent.sql"),
        ("name: x\nroot: r\nsources: {}\nviews: {customer_totals: {modus: full}}", "unknown key 'modus'"),
        ("name: x\nroot: ${IVM_TEST_UNSET}/r\nsources: {}", "IVM_TEST_UNSET.*not set"),
    ],
)
def test_mistakes_are_named(folder, text, message):
    (folder / "pipeline.yml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_folder(folder)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("checks: {values: some}", r"checks.values is 'some'.*hidden, shown"),
        ("checks: {value: shown}", r"pipeline.yml: checks is .*actions, values"),
        ("checks: {actions: [{name: team}]}", r"An action of the checks has the type None"),
        ("audit: {how: quickly}", r"audit.how is 'quickly'.*full, sample, checksum"),
        ("audit: {sample: 0}", r"audit.sample is 0.*above 0, at most 1"),
        ("audit: {schedule: often}", r"audit.schedule"),
        ("audit: {views: [none]}", r"audit.views names 'none'.*customer_totals"),
        ("audit: {view: customer_totals}", r"audit is .*how, sample, schedule, views"),
    ],
)
def test_mistakes_about_checks_and_audits_are_named(folder, block, message):
    (folder / "pipeline.yml").write_text(f"name: x\nroot: r\nsources: {{}}\n{block}")
    with pytest.raises(ConfigError, match=message):
        load_folder(folder)


def test_checks_and_audits_have_settings(folder):
    more = (
        "\nchecks: {values: shown, actions: [{type: slack, name: team}]}\naudit: {how: checksum, schedule: '@daily'}\n"
    )
    with (folder / "pipeline.yml").open("a") as file:
        file.write(more)
    config = load_folder(folder)
    assert config.checking == Checking("shown", ({"type": "slack", "name": "team"},))
    assert config.audit == Audits(("customer_totals",), "@daily", "checksum")


@pytest.mark.parametrize("severity", ["warn", "gate", "quarantine", "critical"])
def test_severities_are_known_and_others_are_not(folder, severity):
    rule = "customer_totals: {{state: [{{expect_column_values_to_be_unique: {{column: a, severity: {}}}}}]}}"
    (folder / "checks.yml").write_text(rule.format(severity))
    load_folder(folder)
    (folder / "checks.yml").write_text(rule.format("[warn]"))
    with pytest.raises(ConfigError, match=r"severity of the check expect_column_values_to_be_unique.*Choose one of"):
        load_folder(folder)


def test_unknown_key_in_checks(folder):
    (folder / "checks.yml").write_text("customer_totals: {rows: []}")
    with pytest.raises(ConfigError, match=r"unknown key 'rows' in customer_totals.*delta, state"):
        load_folder(folder)


@pytest.mark.parametrize("value", [None, "", "/other"])
def test_the_default_of_a_variable(tmp_path, monkeypatch, value):
    """As a shell takes it, for an empty value, too; without a default an empty value is one."""
    monkeypatch.delenv("IVM_TEST_ROOT", raising=False)
    monkeypatch.setenv("IVM_TEST_EMPTY", "")
    if value is not None:
        monkeypatch.setenv("IVM_TEST_ROOT", value)
    text = "name: x\nroot: '${IVM_TEST_ROOT:-/lake}${IVM_TEST_EMPTY}/shop'\nsources: {}"
    (tmp_path / "pipeline.yml").write_text(text)
    assert load_folder(tmp_path).root == f"{value or '/lake'}/shop"


def test_settings_in_the_leading_comment(folder):
    (folder / "views" / "customer_totals.sql").write_text(
        "-- mode: full\n-- what it is for: nothing\nSELECT 1 AS a FROM orders -- mode: auto"
    )
    assert load_folder(folder).views[0].mode == "full"


def test_a_folder_without_a_pipeline(tmp_path):
    with pytest.raises(ConfigError, match=r"has no pipeline.yml.*ivm init"):
        load_folder(tmp_path)


VALID = "name: x\nroot: r\nsources: {}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nroot:\nsources: {}", "root must be a text, found None"),
        ("name: x\nroot: ''\nsources: {}", "root is empty"),
        ("name: x\nroot: [a]\nsources: {}", "root must be a text"),
        ("name: x\nroot: 5\nsources: {}", "root must be a text, found 5"),
        ("name: x\nroot: s3://bucket//lake\nsources: {}", "has an empty part"),
        ("name: x\nroot: dbfs:/lake\nsources: {}", "scheme that is not served here.*s3://"),
        ('name: x\nroot: "a\\0b"\nsources: {}', "NUL"),
        (f"name: x\nroot: {'a' * 300}\nsources: {{}}", "too long"),
        (f"name: x\nroot: {'a/' * 3000}\nsources: {{}}", "too long"),
        ("name: x\nroot: ${A\nsources: {}", "not ended"),
        ("name: x\nroot: '${A:-${HOME}/lake}'\nsources: {}", "not ended, has no name, or holds another one"),
        ("name: x\nroot: '${A:-/la{ke}'\nsources: {}", "not ended.*a default holds no"),
        ("name: x\nname: y\nroot: r\nsources: {}", "'name' is there twice.*line 2"),
        ("name: x\nroot: r\nsources: {o: {path: p}, 'o': {path: q}}", "'o' is there twice"),
        ("name: x\nroot: r\nsources: {on: p}", "key True, which YAML reads as bool.*quotes"),
        ("name: x\nroot: r\nsources: {1: p}", "key 1, which YAML reads as int"),
        ("name: true\nroot: r\nsources: {}", "True is not a name"),
        ("name: [x]\nroot: r\nsources: {}", "is not a name"),
        ("name: x\nroot: r\nsources:", "sources must be a mapping"),
        ("name: x\nroot: r\nsources: {o: 5}", "sources.o must be a mapping"),
        ("name: x\nroot: r\nsources: {o: {path: 5}}", "sources.o.path must be a text"),
        ("name: x\nroot: r\nsources: {o: {table: a/b}}", "a path"),
        ("name: x\nroot: r\nsources: {o: {table: 'a b'}}", "neither a path"),
        ("name: x\nroot: r\nsources: {o: {path: p, primary_key: 5}}", "primary_key must be a column or a list"),
        ("name: x\nroot: r\nsources: {o: {path: p, primary_key: [5]}}", "a column must be a text, found 5"),
        ("name: x\nroot: r\nsources: {o: {path: p, primary_key: [a, A]}}", "more than once"),
        (
            "name: x\nroot: r\nsources: {o: {path: p, foreign_keys: {a: nothing}}}",
            "foreign key to 'nothing', which is no source.*There are: o",
        ),
        ("name: x\nroot: r\nsources: {o: {path: p, foreign_keys: [a]}}", "must be a mapping of columns to sources"),
        (
            "name: x\nroot: r\nsources: {o: {path: p, primary_key: [a, b]}, l: {path: q, foreign_keys: {a: o}}}",
            "its primary key is a, b",
        ),
        ("name: x\nroot: r\nsources: {o: {path: p, effective_date: [d]}}", "effective_date must be a text"),
        ("name: x\nroot: r\nsources: {o: {path: p}, O: {path: q}}", "'O' is taken by 'o'"),
        ("name: x\nroot: r\nsources: {customer_totals: {path: p}}", "'customer_totals' is taken"),
        (VALID + "schedule: [1]", "cron expression or null"),
        (VALID + "schedule: hourly", "no cron expression"),
        (VALID + "schedule: '99 * * * *'", "minute"),
        (VALID + "lane: fast", "lane is 'fast'.*auto, native, spark"),
        (VALID + "lane: true", "lane is True"),
        (VALID + "views: []", "views must be a mapping"),
        (VALID + "views: {customer_totals: full}", "must be a mapping"),
        (VALID + "views: {customer_totals: {mode: 5}}", "mode is 5.*auto, incremental, warn, full"),
        ("[" * 5000, "deeper than 50"),
        ("a: &a [*a]", "part of"),
        ("- x", "must be a mapping"),
        ("name: !!python/object:os.system x", "tag"),
        ("name: x\nroot: 2026-99-99", "no timestamp"),
    ],
)
def test_what_has_no_meaning_is_refused(folder, text, message):
    (folder / "pipeline.yml").write_text(text)
    with pytest.raises(ConfigError, match=f"(?s){message}") as refused:
        load_folder(folder)
    assert "pipeline.yml" in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize("name", ["pipeline.yml", "checks.yml", "views/customer_totals.sql"])
def test_files_that_are_no_text(folder, name):
    file = folder / name
    for data, message in (
        (b"\xff\xfe\x00", "not UTF-8"),
        ("é".encode("latin-1"), "not UTF-8"),
        (b"a: \x00", "NUL|special"),
        (b"x" * 1_000_001, "larger than"),
    ):
        file.write_bytes(data)
        with pytest.raises(ConfigError, match=message):
            load_folder(folder)
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        load_folder(folder)
    file.rmdir()
    file.symlink_to(file)
    with pytest.raises(ConfigError, match="symbolic links"):
        load_folder(folder)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="not an ordinary file"):
        load_folder(folder)


def test_folders_of_views(folder):
    (folder / "views" / "d.sql").mkdir()
    with pytest.raises(ConfigError, match=r"d\.sql is a folder"):
        load_folder(folder)
    (folder / "views" / "d.sql").rmdir()
    (folder / "views" / "a b.sql").write_text("SELECT 1")
    with pytest.raises(ConfigError, match="'a b' is not a name"):
        load_folder(folder)
    (folder / "views" / "a b.sql").rename(folder / "views" / ".hidden.sql")
    (folder / "views" / "empty.sql").write_text(" \n")
    with pytest.raises(ConfigError, match="empty"):
        load_folder(folder)
    (folder / "views" / "empty.sql").write_text("\ufeff-- mode: fast\nSELECT 1 AS a")
    with pytest.raises(ConfigError, match="the comment's mode is 'fast'"):
        load_folder(folder)
    (folder / "views" / "empty.sql").write_text("\ufeff\n-- mode: full\nSELECT 1 AS a")
    assert [(v.name, v.mode) for v in load_folder(folder).views] == [("customer_totals", "auto"), ("empty", "full")]
    (folder / "views" / "empty.sql").unlink()
    (folder / "views" / "customer_totals.sql").unlink()
    (folder / "views" / ".hidden.sql").unlink()
    (folder / "views").rmdir()
    (folder / "views").write_text("")
    with pytest.raises(ConfigError, match=r"views can't be listed: not a directory"):
        load_folder(folder)


@pytest.mark.parametrize("path", ["a\0b", "/dev/null", "a" * 300, "a/" * 3000, "", "\ud800", 5, None])
def test_paths_that_are_no_pipeline_folder(path):
    with pytest.raises(ConfigError):
        load_folder(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing: {}", "checks for 'nothing', which is no view.*There are: customer_totals"),
        ("customer_totals: [a]", "must be a mapping"),
        ("customer_totals: {state: {a: b}}", "must be a list of expectations"),
        ("customer_totals: {state: [a]}", "A check of view 'customer_totals' is 'a'"),
        ("customer_totals: {state: [{a: {}, b: {}}]}", "A check of view"),
        (
            "customer_totals: {state: [{expect_nonsense: {}}]}",
            "'expect_nonsense', which Great Expectations does not know",
        ),
        (
            "customer_totals: {state: [{expect_column_values_to_be_uniqe: {column: a}}]}",
            "Close to it: expect_column_values_to_be_unique",
        ),
        ("customer_totals: {state: [{expect_column_values_to_be_unique: {colum: a}}]}", "takes no 'colum'.*column"),
        ("customer_totals: {state: [{expect_column_values_to_be_unique: {}}]}", "lacks column"),
        ("customer_totals: {state: [{expect_column_values_to_be_unique: column}]}", "A check of view"),
        ("false", "must be a mapping"),
    ],
)
def test_checks_that_lead_nowhere(folder, text, message):
    pytest.importorskip("great_expectations")
    (folder / "checks.yml").write_text(text)
    with pytest.raises(ConfigError, match=f"(?s)checks.yml.*{message}"):
        load_folder(folder)


def test_the_catalog_of_expectations_is_their_own(folder):
    gxe = pytest.importorskip("great_expectations.expectations")
    exported = {n for n in dir(gxe) if n.startswith("Expect")} - {"Expectation"}
    assert set(classes().values()) == exported
    for name, kind in classes().items():
        arguments = arguments_of(name)
        if arguments.allowed:
            fields = getattr(gxe, kind).__fields__
            assert arguments.allowed == set(fields), name
            assert set(arguments.required) == {n for n, f in fields.items() if f.required}, name


def test_reading_a_folder_imports_nothing_heavy(folder):
    """Airflow's DAG processor does it every few seconds."""
    script = (
        f"import sys, ivm.config; ivm.config.load_folder({str(folder)!r}); "
        f"print({{'great_expectations', 'pyspark', 'deltalake', 'sqlglot', 'pandas'}} & set(sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "set()\n"
    )


def test_a_root_apart_from_the_sources(tmp_path):
    for folder in ("orders", "lake/totals", "lake/_ivm/x"):
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(tmp_path / folder), pa.table({"id": [1]}), configuration=feed)
    inside = ivm.Pipeline("p", root=tmp_path / "orders" / "lake")
    with pytest.raises(ConfigError, match=r"lies in the table .*orders"):
        inside.source("orders", tmp_path / "orders")
    pipe = ivm.Pipeline("p", root=tmp_path / "lake")
    with pytest.raises(ConfigError, match=r"lies where .*_ivm is written"):
        pipe.source("x", tmp_path / "lake" / "_ivm" / "x")
    pipe.source("t", tmp_path / "lake" / "totals")
    with pytest.raises(ConfigError, match=r"lies where .*totals is written"):
        pipe.view("totals", "SELECT id FROM t", file="totals.sql")


@pytest.mark.parametrize(
    "root",
    [
        "hdfs://b/x",
        "ftp://x/y",
        "s3:///x",
        "",
        "a\0b",
        5,
        ["a"],
        "/dev/null",
        "/dev/null/x",
        "a" * 300,
        "file://host/x",
        "\ud800",
    ],
)
def test_roots_that_are_no_folder(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        ivm.Pipeline("p", root=root).refresh()
    assert not list(tmp_path.iterdir())


def test_a_file_url_is_its_folder(tmp_path):
    for root in (f"file://{tmp_path}/lake", f"file:{tmp_path}/lake"):
        assert ivm.Pipeline("p", root=root).root == f"{tmp_path}/lake"


def test_every_schedule_that_is_taken_is_one_to_croniter():
    """Airflow reads cron expressions with it."""
    croniter = pytest.importorskip("croniter").croniter
    atoms = [
        "*",
        "0",
        "5",
        "59",
        "60",
        "7",
        "8",
        "31",
        "32",
        "12",
        "13",
        "mon",
        "jan",
        "sun",
        "fri-mon",
        "5-1",
        "1-5",
        "*/5",
        "*/0",
        "0/5",
        "1-5/2",
        "1,2",
        "1,,2",
        "l",
        "L",
        "15W",
        "32W",
        "l5",
        "5#1",
        "5#6",
        "?",
        "H",
        "#",
        "6-0",
        "007",
        "0-59/60",
        "1/2/3",
        "-1",
        "*-5",
        "a",
        "1.5",
    ]
    chosen, taken = random.Random(0), 0
    for _ in range(2000):
        fields = ["*"] * chosen.choice((5, 5, 6))
        for _ in range(2):
            fields[chosen.randrange(len(fields))] = chosen.choice(atoms)
        expression = " ".join(fields)
        with contextlib.suppress(ConfigError):
            check_schedule(expression, "schedule")
            croniter(expression)
            taken += 1
    assert taken > 300
    assert [check_schedule(s, "schedule") for s in ("@daily", "0 5 * * mon-fri", None)] == [
        "@daily",
        "0 5 * * mon-fri",
        None,
    ]


def test_retention_is_a_setting(folder):
    file = folder / "pipeline.yml"
    file.write_text(file.read_text() + "retention: {hours: 24, compact_every: 0}\n")
    assert load_folder(folder).retention == Retention(hours=24, compact_every=0)
    for wrong, message in (
        ("{hours: -1}", "retention.hours must be a whole number from 0 to 876000"),
        ("{hours: 10000000}", "retention.hours must be a whole number from 0 to 876000"),
        ("{epochs: 0}", "retention.epochs must be a whole number from 1 on"),
        ("{days: 1}", "unknown key 'days' in retention"),
        ("5", "retention must be a mapping"),
    ):
        file.write_text(file.read_text().rpartition("retention:")[0] + f"retention: {wrong}\n")
        with pytest.raises(ConfigError, match=message):
            load_folder(folder)

"""Pipeline folders: what is read, and what is refused by name."""

from __future__ import annotations

import pytest

from ivm.cli.template import write_template
from ivm.config import load_folder
from ivm.errors import ConfigError


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
        ("name: x\nroot: r\nsources: {}\nshedule: daily", r"unknown key 'shedule' in the top level.*Allowed there: .*schedule"),
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


def test_unknown_key_in_checks(folder):
    (folder / "checks.yml").write_text("customer_totals: {rows: []}")
    with pytest.raises(ConfigError, match=r"unknown key 'rows' in customer_totals.*delta, state"):
        load_folder(folder)


def test_settings_in_the_leading_comment(folder):
    (folder / "views" / "customer_totals.sql").write_text("-- mode: full\n-- what it is for: nothing\nSELECT 1 AS a FROM orders -- mode: auto")
    assert load_folder(folder).views[0].mode == "full"


def test_a_folder_without_a_pipeline(tmp_path):
    with pytest.raises(ConfigError, match=r"has no pipeline.yml.*ivm init"):
        load_folder(tmp_path)

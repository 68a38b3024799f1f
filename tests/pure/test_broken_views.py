"""A view whose text can't be read, or a cycle of views, stops itself and its readers; the others are refreshed."""

from __future__ import annotations

import pytest
import typer

from ivm.cli.verbs import advance
from ivm.errors import ViewError
from ivm.refresh.views import View, in_order
from tests.scenes import change

BEFORE = "refresh"
TEXTS = {
    "good": "SELECT id FROM people; -- the end\n",
    "bad": "SELECT id, FROM WHERE (",
    "reader": "SELECT id FROM bad",
    "one": "SELECT id FROM other",
    "other": "SELECT id FROM one",
    "itself": "SELECT id FROM itself",
}


def views(*names):
    return {n: View(n, TEXTS[n], file=f"views/{n}.sql") for n in names}


def test_the_others_are_ordered_and_these_are_told():
    broken = {}
    assert [v.name for v in in_order(views("bad", "reader", "one", "other", "itself"), broken=broken)] == ["reader"]
    assert {n: why.split(".")[0].split(":")[0] for n, why in broken.items()} == {
        "bad": "View 'bad' (views/bad",
        "one": "Views read each other in a cycle",
        "other": "Views read each other in a cycle",
        "itself": "Views read each other in a cycle",
    }


@pytest.mark.parametrize("name", ["bad", "one", "itself"])
def test_without_a_place_for_them_the_error_names_view_and_file(name):
    with pytest.raises(ViewError) as raised:
        in_order(views("bad", "one", "other", "itself"), [name])
    assert name in str(raised.value)


def test_the_others_are_refreshed(lake):
    pipe = lake.pipeline(lake.folder)
    for name in ("bad", "reader", "one", "other"):
        pipe.view(name, TEXTS[name], file=f"views/{name}.sql")
    pipe.view("ended", "SELECT * FROM orders; -- all of them\n", file="views/ended.sql")
    report = pipe.refresh()
    failed = {n: v.error for n, v in report.views.items() if v.error}
    assert set(failed) == {"bad", "reader", "one", "other"}
    assert "bad can't be compiled" in failed["reader"]
    assert report.views["ended"].strategy == "full"


def with_broken(lake):
    """A pipeline of which `bad` can't be compiled, nor `reader`, which reads it."""
    pipe = lake.pipeline(lake.folder)
    for name in ("bad", "reader"):
        pipe.view(name, TEXTS[name], file=f"views/{name}.sql")
    return pipe


@pytest.mark.parametrize("act", [lambda p: p.refresh(["totals"]), lambda p: p.backfill("totals")])
def test_who_names_others_hears_nothing_of_them(lake, act):
    report = act(with_broken(lake))
    assert report.ok
    assert "bad" not in report.views
    assert with_broken(lake).context.log.plan(report.epoch).broken == {}


def test_who_names_what_reads_them_hears_of_both(lake):
    report = with_broken(lake).refresh(["totals", "reader"])
    assert {n for n, v in report.views.items() if v.error} == {"reader", "bad"}


@pytest.mark.parametrize("refreshed", [False, True])
def test_a_plan_shows_those_that_are_asked_for(lake, monkeypatch, refreshed):
    pipe = with_broken(lake)
    if refreshed:
        pipe.refresh()
    monkeypatch.setattr(advance, "load", lambda *_, **__: pipe)
    advance.plan(["totals"])
    for views in (["reader"], None):
        with pytest.raises(typer.Exit):
            advance.plan(views)


def test_the_status_tells_why_they_are_behind_until_they_are_refreshed(lake):
    pipe = lake.pipeline(lake.folder)
    pipe.context.views["nested"] = View("nested", "SELECT nothere FROM orders")
    assert not pipe.refresh().ok
    told = lake.pipeline(lake.folder).status()["views"]
    assert told["nested"]["error"].startswith("could not be planned in epoch 2: View 'nested'")
    assert [v for v, of in told.items() if of["error"]] == ["nested"]
    change(lake)
    assert lake.pipeline(lake.folder).refresh().ok
    assert lake.pipeline(lake.folder).status()["views"]["nested"]["error"] == ""

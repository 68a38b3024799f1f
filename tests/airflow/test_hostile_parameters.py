"""Hostile parameters of a backfill run: refused with one sentence before any computation, or they mean something."""

from __future__ import annotations

import pytest

from tests.pure.hostile import TEXTS, Rng
from tests.pure.test_hostile import Cases, inside, no_spark, seeds, shop, told  # noqa: F401 - fixtures

pytestmark = [pytest.mark.airflow]


def parameters(rng: Rng) -> dict:
    """As Airflow hands them over: JSON, of any kind where the API was asked to skip the schema."""
    where = rng.choice(
        [
            None,
            rng.text("customer = 'a'"),
            rng.value(),
            rng.choice(TEXTS),
            "customer = 'a') OR (1=1",
            "customer = 'a'; DROP TABLE x",
        ]
    )
    day = rng.choice([None, None, rng.value(), "2026-03-31", rng.text("2026-03-31")])
    view = rng.choice(["totals", "large", rng.value(), rng.choice(TEXTS)])
    return {"view": view, "where": where, "day": day, "until": rng.choice([*[None] * 12, rng.value(), "2026-04-01"])}


def test_hostile_parameters_are_refused_or_mean_something(shop, no_spark, monkeypatch):  # noqa: F811 - the fixtures
    monkeypatch.setenv("AIRFLOW_HOME", str(shop / "home"))
    monkeypatch.chdir(shop)
    from airflow.sdk.exceptions import AirflowFailException

    from ivm.orchestration.tasks import validate_backfill_task

    cases = Cases("parameters of a DAG")
    for seed in seeds(0.05, 150):
        given = parameters(Rng(seed))
        with cases.case(seed, given):
            try:
                validate_backfill_task(str(shop), given)
            except AirflowFailException as error:
                told(error.__cause__)
                raise error.__cause__ from None
    cases.judge()

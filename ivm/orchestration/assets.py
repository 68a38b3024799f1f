"""The Assets of a pipeline's views, and what their events tell.

    NAME.view         an event a publication: version, rows, strategy, reason, days
    NAME.view.days    of a view over dated sources: an event for each day that was changed, the day is its partition key

They are two, since Airflow (3.3.2, `AssetManager`) starts no DAG without partitions for an event that has a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import normpath
from typing import Any, NamedTuple
from urllib.parse import quote

from airflow.sdk import Asset, get_current_context

from ivm.config import PipelineConfig
from ivm.orchestration.lineage import emit
from ivm.orchestration.reads import dated
from ivm.plan.kinds import StrategyKind

#: What would end a URI's path, or stand for another character.
_QUOTED = str.maketrans({c: quote(c) for c in "%#?"})


class Outlets(NamedTuple):
    """A view's Asset, and where it may be kept by day the one whose events have days as partition keys."""

    table: Asset
    days: Asset | None = None


def output_assets(config: PipelineConfig) -> dict[str, Asset]:
    """An Asset for each view's table, by view; other DAGs can be scheduled on them."""
    return {v.name: Asset(name=f"{config.name}.{v.name}", uri=uri_of(f"{config.root}/{v.name}")) for v in config.views}


def outlets_of(config: PipelineConfig) -> dict[str, Outlets]:
    """What a task that publishes a view updates, by view."""
    assets, days = output_assets(config), {v: Asset(f"{config.name}.{v}.days") for v in dated(config)}
    return {view: Outlets(asset, days.get(view)) for view, asset in assets.items()}


def assets_of(outlets: Mapping[str, Outlets]) -> list[Asset]:
    """All of them, for the `outlets` of a task."""
    return [asset for of in outlets.values() for asset in of if asset is not None]


def uri_of(place: str) -> str:
    """A root's or source's place as the URI of an Asset: one a place, of which no part is a query or a fragment.

    >>> uri_of("/lake/shop/"), uri_of("s3://lake/shop"), uri_of("/lake/no #1")
    ('file:///lake/shop', 's3://lake/shop', 'file:///lake/no %231')
    """
    return (place if "://" in place else f"file://{normpath(place)}").translate(_QUOTED)


def published(outlets: Mapping[str, Outlets], views: Mapping[str, Mapping[str, Any]]) -> dict[str, Outlets]:
    """The outlets of the views of which the running task published something; it tells of no others, then.

    Airflow (3.3.2) makes an event for each Asset that the task has as an outlet when it ends, whatever it did for it,
    and an AssetAlias, which is for some of several, takes no partition keys.
    """
    changed = {view for view, done in views.items() if done["strategy"] != StrategyKind.UNCHANGED}
    kept = {view: of for view, of in outlets.items() if view in changed}
    get_current_context()["ti"].task.outlets = assets_of(kept)
    return kept


def describe(folder: str, outlets: Mapping[str, Outlets], views: Mapping[str, Mapping[str, Any]]) -> None:
    """Give each view's event what was committed of it (version, rows, strategy, reason), and one to each day of it.

    OpenLineage is told likewise, where its provider is installed.
    """
    events = get_current_context()["outlet_events"] if outlets else {}
    for view, of in outlets.items():
        done = dict(views.get(view, {}))
        events[of.table].extra = done
        if of.days is not None and done.get("days"):
            events[of.days].extra = {k: v for k, v in done.items() if k != "days"}
            events[of.days].add_partitions(list(done["days"]))
    emit(folder, [view for view in outlets if view in views])

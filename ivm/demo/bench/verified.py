"""What ivm keeps, compared with Spark's own result of each view's SQL."""

from __future__ import annotations

from typing import Any

from ivm.demo.bench.contestants import Refresh
from ivm.demo.bench.steps import Steps
from ivm.session import configured, error_text

#: Comparing isn't timed. With a task a core, sorts of q21 at SF10 found no memory in a heap of 8 GiB.
_SETTINGS = {"spark.sql.shuffle.partitions": "64"}


def verified(refresh: Refresh, steps: Steps) -> dict[str, Any]:
    """Every view, as a bag; `differing` has those that aren't equal, with a few of the rows, or can't be compared."""
    rows: dict[str, int] = {}
    differing: dict[str, str] = {}
    for view in refresh.pipe.context.views.values():
        steps.at(f"verifying {view.name} of {refresh.name}")
        try:
            with configured(refresh.pipe.context.spark(), _SETTINGS):
                found = refresh.pipe.verify(view.name)
        except Exception as error:  # noqa: BLE001 - what was timed for an hour isn't lost for it
            differing[view.name] = f"can't be compared: {error_text(error)}"
            continue
        rows[view.name] = found.rows
        if not found:
            differing[view.name] = str(found)
    return {"what": "each row with a recompute by Spark", "rows": rows, "differing": differing}

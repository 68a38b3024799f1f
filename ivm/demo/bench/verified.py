"""What ivm keeps, compared with Spark's own result of each view's SQL."""

from __future__ import annotations

from typing import Any

from ivm.demo.bench.contestants import Refresh
from ivm.demo.bench.steps import Steps


def verified(refresh: Refresh, steps: Steps) -> dict[str, Any]:
    """Every view, as a bag; `differing` has those that aren't equal, with a few of the rows."""
    rows: dict[str, int] = {}
    differing: dict[str, str] = {}
    for view in refresh.pipe.context.views.values():
        steps.at(f"verifying {view.name} of {refresh.name}")
        found = refresh.pipe.verify(view.name)
        rows[view.name] = found.rows
        if not found:
            differing[view.name] = str(found)
    return {"what": "each row with a recompute by Spark", "rows": rows, "differing": differing}

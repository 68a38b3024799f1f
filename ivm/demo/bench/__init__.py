"""Benchmarks on TPC-H in which all contestants take turns over the same sources and the same changes.

    tpch      a change, one row, nothing: refreshed by ivm's engines, rebuilt by Spark and by DuckDB
    change    at each share of changed rows: what the planner chose, and either strategy forced
    alone     each query by itself: its refresh against its own CREATE OR REPLACE TABLE AS
    means     each mean that makes a refresh cheap, switched off by itself

Nothing heavy is imported here: Spark's memory is set before anything that starts it is loaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from rich.console import Console

from ivm.demo.bench import result
from ivm.demo.bench.asked import Asked
from ivm.demo.bench.machine import load
from ivm.demo.bench.steps import Steps
from ivm.errors import ConfigError


def run_bench(asked: Asked, keep: bool, as_json: bool, out: Console) -> int:
    """Run a benchmark, and keep its figures where that is asked for; exit code 1 where a view differs.

    Raises ConfigError for an unknown name, and where what a contestant needs isn't installed.
    """
    found = _run(asked)
    if keep:
        result.keep(found)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        from ivm.demo.bench.show import show

        show(found, out)
    return 0 if result.equal(found) else 1


def _run(asked: Asked) -> dict[str, Any]:
    os.environ.setdefault("IVM_DRIVER_MEMORY", "8g")
    from ivm.demo.bench.alone import alone
    from ivm.demo.bench.contest import contest
    from ivm.demo.bench.crossing import crossing
    from ivm.demo.bench.lake import Lake
    from ivm.demo.bench.means import means
    from ivm.session import get_session

    benches: dict[str, Callable[[Asked, Lake, Steps], dict[str, Any]]] = {
        "tpch": contest,
        "change": crossing,
        "alone": alone,
        "means": means,
    }
    if asked.name not in benches:
        raise ConfigError(f"There is no benchmark {asked.name!r}.", f"Choose one of: {', '.join(benches)}.")
    before = load()
    with Steps(Console(stderr=True, markup=False, highlight=False)) as steps:
        lake = Lake(get_session(), asked.folder.absolute() / f"sf{asked.scale:g}", asked)
        lake.load(steps)
        found = benches[asked.name](asked, lake, steps)
    return result.told(asked, before, found)

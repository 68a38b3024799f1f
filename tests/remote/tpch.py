"""The whole TPC-H pipeline with sources and root on an object store: built, refreshed, compacted, backfilled, compared.

python -m tests.remote.tpch s3://BUCKET FOLDER SCALE       prints {"steps": {part: result}, "seconds": ...}
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import ivm
from ivm.demo import tpch
from ivm.refresh.run import Report
from ivm.session import get_session
from ivm.storage.location import Location
from tests.remote.run import REPOSITORY
from tests.remote.shop import timed

FRACTION = 0.001


def main() -> None:
    lake, folder, scale = Location.of(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    os.environ |= {"IVM_TPCH_ROOT": f"{lake}/root", "IVM_TPCH_SOURCES": f"{lake}/sources"}
    seconds: dict[str, float] = {}
    found: dict[str, Any] = {}
    with timed(seconds, "session"):
        spark = get_session(schemes=["s3"])
    with timed(seconds, "sources"):
        tpch.generate(folder, scale)
        for file in folder.glob("*.parquet"):
            (lake / "data" / file.name).write(file.read_bytes())
        tpch.load(spark, lake / "data", lake / "sources")
    pipe = ivm.Pipeline.load(REPOSITORY / "pipelines" / "tpch", spark=spark)
    with timed(seconds, "build"):
        found["build"] = strategies(pipe.refresh())
    tpch.change(spark, lake / "sources", 1, FRACTION)
    with timed(seconds, "refresh"):
        found["refresh"] = strategies(pipe.refresh())
    with timed(seconds, "compact"):
        found["compact"] = [c.error for c in pipe.compact(keep_epochs=0) if c.error]
    with timed(seconds, "backfill"):
        found["backfill"] = strategies(pipe.backfill("q05")) | strategies(pipe.backfill("q01", "l_linestatus = 'F'"))
    with timed(seconds, "verify"):
        found["verify"] = {name: str(result) for name in pipe.context.views if not (result := pipe.verify(name))}
    spark.stop()
    print(json.dumps({"steps": found, "seconds": seconds}))


def strategies(report: Report) -> dict[str, str]:
    return {name: view.error or view.strategy for name, view in report.views.items()}


if __name__ == "__main__":
    main()

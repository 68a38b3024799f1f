"""spark-submit job.py FOLDER VERB [JSON]: what Airflow lets run as a job of Spark's; needs no Airflow itself.

refresh    all steps; ends well once an epoch is committed, be it without some views: the tasks after it say which
backfill   {"view": ..., "where": ..., "day": ..., "until": ...}, then the comparison with a recompute
compact    traces and small files

Parameters come as one JSON argument, which no shell and no template of ours ever sees.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ivm.errors import GateError, IvmError, StateError
from ivm.pipeline import Pipeline


def refresh(pipe: Pipeline, _given: Mapping[str, Any]) -> None:
    """Raises GateError where views failed and no epoch was committed that says so."""
    before = pipe.context.log.manifest().epoch
    report = pipe.refresh()
    errors = [f"{v.view}: {v.error}" for v in report.views.values() if v.error]
    if errors and report.epoch == before:
        raise GateError("Nothing was published: " + "; ".join(errors) + ".", "See `ivm status`.")


def backfill(pipe: Pipeline, given: Mapping[str, Any]) -> None:
    """Raises GateError where the view was not published, StateError where it differs from a recompute then."""
    view = str(given["view"])
    report = pipe.backfill(view, given.get("where"), day=given.get("day"), until=given.get("until"))
    errors = [f"{v.view}: {v.error}" for v in report.views.values() if v.error]
    if errors:
        raise GateError("Not published: " + "; ".join(errors) + ".", "See `ivm status`.")
    result = pipe.verify(view)
    if not result:
        raise StateError(f"{result}.", f"Rebuild the whole view: `ivm repair {view}`.")


def compact(pipe: Pipeline, _given: Mapping[str, Any]) -> None:
    """Raises StateError where a table was left out."""
    left_out = [f"{c.table}: {c.error}" for c in pipe.compact() if c.error]
    if left_out:
        raise StateError("Compacted, but not these: " + "; ".join(left_out) + ".", "See `ivm status`.")


VERBS: dict[str, Callable[[Pipeline, Mapping[str, Any]], None]] = {
    "refresh": refresh,
    "backfill": backfill,
    "compact": compact,
}


def main(arguments: Sequence[str]) -> int:
    """The exit code; an error is one sentence."""
    folder, verb, *given = arguments
    try:
        VERBS[verb](Pipeline.load(folder), json.loads(given[0]) if given else {})
    except IvmError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

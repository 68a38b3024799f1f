"""spark-submit job.py FOLDER VERB [JSON]: what Airflow lets run as a job of Spark's; needs no Airflow itself.

refresh    all steps; ends well once an epoch is committed, be it without some views: the tasks after it say which
backfill   {"view": ..., "where": ..., "day": ..., "until": ...}, then the comparison with a recompute; with
           {"dry_run": true} it only says what would be read, written and spent
compact    traces and small files

Parameters come as one JSON argument, which no shell and no template of ours ever sees. What may pass is tried again
here: Airflow, which sees an exit code only, can't tell it from what fails for good.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ivm.errors import GateError, IvmError, StateError, may_pass
from ivm.pipeline import Pipeline
from ivm.refresh.estimate import lines

#: How often a verb is tried where its error may pass, and seconds between two tries.
TRIES, BETWEEN = 3, 10.0


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
    where, day, until = (given.get(key) for key in ("where", "day", "until"))
    if given.get("dry_run"):
        print("\n".join(lines(pipe.estimate(view, where, day, until))))
        return
    report = pipe.backfill(view, where, day=day, until=until)
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
    for left in reversed(range(TRIES)):
        try:
            VERBS[verb](Pipeline.load(folder), json.loads(given[0]) if given else {})
            break
        except IvmError as error:
            print(f"error: {error}", file=sys.stderr)
            if not left or not may_pass(error):
                return 1
        time.sleep(BETWEEN)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The list of what is portable, at a night's volume: all cases of each entry over so many rows.

    python -m tests.nightly.portable --rows 100000 --seed 1
    python -m tests.nightly.portable --rows 2000 --seed 1 --entry div --entry round

Rows come in parts, each with a seed of its own; of aggregates a case is a group. What differs is named with the part's
seed, and counts lie in build/nightly/portable.json.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from ivm.session import statements
from tests.nightly.counts import Counts
from tests.portable import cases, compare, rows

#: Rows at a time.
PART = 20_000


def run(spark, counts: Counts, most: int, entries: list[str]) -> None:
    """Compare all cases, part by part, until there were so many rows or the minutes are over."""
    chosen = [c for c in cases() if not entries or any(e in c.entry for e in entries)]
    counts.add(entries=len({c.entry for c in chosen}), expressions=len(chosen))
    with counts.shown(), tempfile.TemporaryDirectory() as folder, statements(spark, small=True):
        for part, start in enumerate(range(0, most, PART)):
            if counts.over:
                break
            size, seed = min(PART, most - start), counts.seed * 1_000 + part
            for wrong in compare(spark, rows(size, seed), chosen, Path(folder)):
                counts.fail(f"rows({size}, {seed}): {wrong}")
            counts.add(rows=size, values=size * len(chosen))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--entry", action="append", default=[], help="only entries with this in their name")
    parser.add_argument("--out", type=Path, default=Path("build/nightly/portable.json"))
    asked = parser.parse_args()
    from ivm.session import get_session

    counts = Counts("portable", asked.seed, asked.minutes)
    run(get_session(), counts, asked.rows, asked.entry)
    return counts.store(asked.out)


if __name__ == "__main__":
    sys.exit(main())

"""The curated corpus: views by construct, each with the strategy it must have.

A file holds entries `-- name: incremental` or `-- name: full, code`, each followed by one line of SQL, over the tables
`TABLES`. A lost capability is a failing test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TABLES = {
    "a": "k int, x int, s string, p decimal(10,2), arr array<int>, f double, d date, st struct<u:int,v:string>",
    "b": "k int, y int, n string",
    "c": "y int, z int, p decimal(10,2)",
}
_ENTRY = re.compile(r"-- (\w+): (incremental|full, \w+)\n(.+)\n")


@dataclass(frozen=True)
class Entry:
    name: str
    expected: str
    sql: str


def entries() -> list[Entry]:
    """All entries, named `file_name`."""
    found = []
    for file in sorted(Path(__file__).parent.glob("*.sql")):
        text = file.read_text()
        listed = [Entry(f"{file.stem}_{name}", expected, sql) for name, expected, sql in _ENTRY.findall(text)]
        assert len(listed) == text.count("-- "), f"{file.name}: {text.count('-- ')} headings, {len(listed)} entries"
        found += listed
    return found

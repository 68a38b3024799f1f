"""A benchmark's figures on a console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from ivm.demo.bench.result import TABLES, remarks


def show(found: Mapping[str, Any], out: Console) -> None:
    """Its tables, then its remarks."""
    out.print(f"TPC-H SF{found['scale']:g}")
    for table in TABLES[found["kind"]]:
        columns, rows = table(found)
        drawn = Table()
        for number, column in enumerate(columns):
            drawn.add_column(column, justify="right" if number else "left")
        for row in rows:
            drawn.add_row(*row)
        out.print(drawn)
    for line in remarks(found):
        out.print(line)

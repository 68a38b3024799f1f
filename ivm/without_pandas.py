"""Arrow without pandas, in a process that is to end soon.

Making its first array of Python values, pyarrow imports pandas if it can, to know a Series if it is given one: that is
a quarter of a second, of a refresh that takes one. Told once that there is none, it looks again only where it is asked
for a DataFrame, or to read one. From then on it knows pandas as if nothing had been told.
"""

from __future__ import annotations

import sys
import threading


def tell_arrow() -> None:
    """Let Arrow take pandas for absent; nothing happens where pandas is imported, or was looked for, already."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _Absent()
    sys.meta_path.insert(0, finder)  # type: ignore[arg-type]  # it finds nothing
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]


class _Absent:
    """Finds no pandas for the thread that made it; other threads import what they like."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError("No module named 'pandas'", name=name)

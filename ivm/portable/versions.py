"""The versions of DuckDB for which the list of what is portable was shown, and reads of Parquet files were compared."""

from __future__ import annotations

import importlib.util
from importlib import metadata

#: From the first up to, without, the second.
VERSIONS = ((2, 0), (2, 1))


def lacking() -> str:
    """What DuckDB of these versions there isn't, in words; "" where it is installed."""
    first, last = (".".join(map(str, v)) for v in VERSIONS)
    wanted = f"DuckDB {first} or later, before {last}"
    if importlib.util.find_spec("duckdb") is None:
        return f"needs {wanted}, and there is none"
    found = metadata.version("duckdb")
    if not VERSIONS[0] <= tuple(int(p) for p in found.split(".")[:2]) < VERSIONS[1]:
        return f"needs {wanted}, and DuckDB {found} is installed"
    return ""

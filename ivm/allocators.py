"""Memory that delta-rs and DuckDB have freed stays with the process for a while: what the next read needs is there.

On Linux each brings an allocator of its own (jemalloc), which gives pages back to the kernel ten seconds after they
were freed. A page that is asked for again is cleared, and on a virtual machine that the host backs page by page it
costs several times as much: of some 20 processor seconds of a refresh of TPC-H's views at SF10 up to 5 were the
system's (docs/design/2026-11-29-one-view-alone.md).

An allocator reads its variable when its library is loaded, so that this comes before any import of one. What is set
already stays: `dirty_decay_ms:0` in the variable gives all back at once.
"""

import os

#: So long freed pages are kept: a refresh comes every few minutes, or the process ends with it.
KEPT_MS = 10 * 60 * 1000
#: The variables of delta-rs's allocator and of DuckDB's.
VARIABLES = ("_RJEM_MALLOC_CONF", "DUCKDB_JE_MALLOC_CONF")


def keep_pages() -> None:
    """Say so to the allocators that aren't loaded yet."""
    for variable in VARIABLES:
        os.environ.setdefault(variable, f"dirty_decay_ms:{KEPT_MS},muzzy_decay_ms:{KEPT_MS}")

"""The pages of `ivm ui`, served for as long as somebody looks at them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ivm.ui.server import server


@contextmanager
def served(place: Path) -> Iterator[str]:
    """Their address."""
    made, address = server(place)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    try:
        yield address
    finally:
        made.shutdown()
        made.server_close()
        thread.join()

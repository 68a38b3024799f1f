"""Which tables the views' texts name, kept beside the programs: finding them takes a parser, 4 ms a view.

    programs/tables-COMPILER.json     a hash of the rest / {text: the mentions in it} (JSON)

COMPILER is of our compiler's text and of its readers' versions: what another one found isn't read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from ivm.errors import ViewError
from ivm.refresh.programs import compiler_fingerprint, sealed, unsealed
from ivm.sql.text import Mentions, relation_tables, remember
from ivm.storage.location import Location


@contextmanager
def remembered(folder: Location, texts: Collection[str]) -> Iterator[None]:
    """In the block it is known what was found in the texts before; afterwards what was found in them is kept."""
    file = folder / f"tables-{compiler_fingerprint()}.json"
    told = unsealed(file)
    known = {} if told is None else {s: tuple((n, a, b, c) for n, a, b, c in of) for s, of in json.loads(told).items()}
    remember(known)
    yield
    if known.keys() != set(texts):
        sealed(file, json.dumps({sql: found for sql in sorted(texts) if (found := _mentions(sql)) is not None}))


def _mentions(sql: str) -> Mentions | None:
    try:
        return relation_tables(sql)
    except ViewError:  # is told of the view, each time
        return None

"""Statements that the embedded engine has had translated, kept beside the programs from process to process.

    statements/CODE.json     a hash of the rest / {form: what was written for it} (JSON)

CODE is of the translator's text and of the versions that it was shown for: what another one wrote isn't read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

from ivm.portable.translations import Translations
from ivm.refresh.programs import fingerprint, sealed, unsealed, versions
from ivm.storage.location import Location

#: The translator's own text.
_TRANSLATOR = ("names.py", "plan", "sql", "portable")


@contextmanager
def remembered(folder: Location, translations: Translations) -> Iterator[Translations]:
    """What is known of a root's statements; what was written anew in the block is known to the next process."""
    file = folder / f"{_code()}.json"
    if translations.empty and (told := unsealed(file)) is not None:
        translations.take(told)
    yield translations
    if translations.fresh:
        for other in folder.list():
            if other.name != file.name:
                other.drop()
        sealed(file, translations.told())


@functools.cache
def _code() -> str:
    return fingerprint(_TRANSLATOR, {**versions(), "duckdb": metadata.version("duckdb")})

"""The features of a Delta table by name, those included that older protocols imply (pure)."""

from __future__ import annotations

from collections.abc import Collection

from ivm.names import table_ref

#: What a writer version without names implies, by the version from which on it does.
_IMPLIED = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
#: From this version on the features are named.
_NAMED = 7


def features(writer_version: int, reading: Collection[str] | None, writing: Collection[str] | None) -> frozenset[str]:
    """The names of all features that a protocol asks for.

    >>> sorted(features(4, None, None))
    ['appendOnly', 'changeDataFeed', 'checkConstraints', 'generatedColumns', 'invariants']
    >>> sorted(features(7, ["deletionVectors"], ["deletionVectors", "rowTracking"]))
    ['deletionVectors', 'rowTracking']
    """
    if writer_version >= _NAMED:
        return frozenset({*(reading or ()), *(writing or ())})
    return frozenset(name for since, names in _IMPLIED.items() if since <= writer_version for name in names)


def drop_features(path: str, names: str) -> str:
    """What to do about a table's features.

    >>> drop_features("/lake/t", "rowTracking")
    'Drop them: ALTER TABLE delta.`/lake/t` DROP FEATURE ... (for each of rowTracking).'
    """
    return f"Drop them: ALTER TABLE {table_ref(path)} DROP FEATURE ... (for each of {names})."

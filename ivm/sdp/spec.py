"""spark-pipeline.yml: which files hold the definitions, and where the names in them lie.

Invariant: a file that `spark-pipelines` would read is read, and no other.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ivm.errors import ConfigError
from ivm.files import read_yaml
from ivm.parameters import shown, text

NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
_KEYS = {"name", "storage", "catalog", "database", "schema", "configuration", "libraries"}
#: Where Spark looks for a name that has no database, if nobody says otherwise.
_CATALOG, _DATABASE = "spark_catalog", "default"


@dataclass(frozen=True)
class Spec:
    """`catalog` and `database` are "" where the project names none; `files` are in the order of their names."""

    folder: Path
    catalog: str
    database: str
    configuration: Mapping[str, str]
    files: tuple[Path, ...]

    def full(self, name: str) -> tuple[str, str, str]:
        """A table's catalog, database and name, in lower case."""
        parts = name.lower().split(".")
        before = [(self.catalog or _CATALOG).lower(), (self.database or _DATABASE).lower()]
        found = [*before[: max(0, 3 - len(parts))], *parts]
        return ".".join(found[:-2]), found[-2], found[-1]

    def qualified(self, name: str) -> str:
        """A table's name with what the project says before it, as far as it says so.

        In a catalog without a database it is the default one. Without either it is whatever the session has.
        """
        count = name.count(".") + 1
        database = self.database or (_DATABASE if self.catalog else "")
        before = [self.catalog if count < 3 else "", database if count < 2 else ""]
        return ".".join([*(b for b in before if b), name])


def spec_at(given: str) -> Path | None:
    """The spec that a path names, itself or its folder; None where it names none."""
    try:
        place = Path(given)
        if place.is_dir():
            return next((place / n for n in NAMES if (place / n).is_file()), None)
        return place if place.suffix in (".yml", ".yaml") and place.is_file() else None
    except (OSError, ValueError):  # a query is too long for a path, or no path at all
        return None


def read_spec(file: Path) -> Spec:
    """Raises ConfigError for what is no spec, and for libraries that `spark-pipelines` refuses, too."""
    data = read_yaml(file)
    if not isinstance(data, dict) or (unknown := sorted(str(k) for k in set(data) - _KEYS)):
        what = f"has the unknown key {shown(unknown[0])}" if isinstance(data, dict) else "is no mapping"
        raise ConfigError(f"{file} {what}.", f"A spec of a declarative pipeline has: {', '.join(sorted(_KEYS))}.")
    folder = file.parent.resolve()
    found = {p for pattern in _patterns(data.get("libraries"), file) for p in _matching(folder, pattern)}
    configuration = data.get("configuration") or {}
    if not isinstance(configuration, dict):
        raise ConfigError(f"{file}: configuration is {shown(configuration)}.", "It is a mapping of Spark's settings.")
    return Spec(
        folder,
        _name(data.get("catalog"), "catalog"),
        _name(data.get("database", data.get("schema")), "database"),
        {str(k): str(v) for k, v in configuration.items()},
        tuple(sorted(found)),
    )


def _name(value: Any, what: str) -> str:
    return "" if value is None else text(value, what, "Give a name.")


def _patterns(libraries: Any, file: Path) -> list[str]:
    hint = "Write `- glob: {include: transformations/**}`: a file, or a folder followed by /**."
    found = []
    for entry in libraries if isinstance(libraries, list) else []:
        inner = entry.get("glob") if isinstance(entry, dict) else None
        pattern = inner.get("include") if isinstance(inner, dict) else None
        plain = pattern.removesuffix("/**") if isinstance(pattern, str) else ""
        if not plain or glob.has_magic(plain) or Path(plain).is_absolute():
            raise ConfigError(f"{file}: libraries holds {shown(entry)}.", hint)
        found.append(plain if plain == pattern else f"{plain}/**/*")
    if not found:
        raise ConfigError(f"{file} names no libraries.", hint)
    return found


def _matching(folder: Path, pattern: str) -> list[Path]:
    return [p for p in folder.glob(pattern) if p.is_file() and "__pycache__" not in p.parts]

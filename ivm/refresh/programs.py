"""The cache of compiled programs under a root: a file for each view, what it reads, and the compiler.

    VIEW-FACTS-COMPILER.json     a hash of the rest / what made it, its definitions (JSON) / the program (JSON)

A program is read back only by the compiler that made it: ours, sqlglot's and Spark's versions are in the key. What
others made stays, for it tells what a definition of theirs stands for (see `ivm.refresh.definitions`).

Invariant: a file is read as it was written, or not at all; one that is lost costs a compilation.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ivm.errors import StorageError
from ivm.plan.nodes import Program
from ivm.refresh.records import from_json, program_json
from ivm.storage.location import Location, Stat

#: What decides how a view's text is understood, besides our own compiler's text: Spark may come in any of its
#: distributions.
_READERS = ("ivm", "sqlglot", "pyspark", "pyspark-connect", "pyspark-client")
#: Where the compiler's own text lies in the package.
_COMPILER = ("names.py", "plan", "sql", "rewrite", "compile")


@dataclass(frozen=True)
class Kept:
    """A program as a compiler left it: a hash of the `facts` it was compiled from, and its JSON.

    `definitions` are those it stands for, one a mode; None in a file of an ivm that wrote none.
    """

    facts: str
    text: str
    definitions: tuple[str, ...] | None = None

    @property
    def program(self) -> Program:
        """Raises StateError where the JSON is no program of this version."""
        return _program(self.text)


def place(folder: Location, view: str, facts: str) -> Location:
    """The file of a view's program, compiled from these facts by this compiler."""
    return folder / f"{view}-{facts}-{compiler_fingerprint()}.json"


def read(file: Location) -> Program | None:
    """The program in a file of the cache; None where there is no such file, or it isn't as it was written."""
    found = _parts(file)
    return found.program if found is not None and found.definitions is not None else None


def keep(file: Location, program: Program, definitions: Collection[str]) -> None:
    """Write a program into the cache, whole or not at all; what can't be kept is compiled again next time."""
    head = json.dumps({"made_by": versions(), "definitions": sorted(definitions)})
    sealed(file, f"{head}\n{program_json(program)}")


def sealed(file: Location, text: str) -> None:
    """Write a text below its hash; what can't be written isn't there."""
    data = text.encode()
    with suppress(OSError, StorageError):
        file.write(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def unsealed(file: Location) -> str | None:
    """The text of a file that `sealed` wrote; None where there is none, or it isn't as it was written."""
    try:
        digest, _, data = file.read().partition(b"\n")
    except (OSError, StorageError):
        return None
    return data.decode() if digest.decode("ascii", "replace") == hashlib.sha256(data).hexdigest() else None


def kept(folder: Location, view: str) -> Iterator[Kept]:
    """All programs of a view in the cache, whoever compiled them."""
    for file in folder.list():
        if file.name.rpartition("-")[0].rpartition("-")[0] == view and (found := _parts(file)) is not None:
            yield found


def _parts(file: Location) -> Kept | None:
    stat = file.stat()
    return _parts_of(file, stat) if stat is not None else None


@functools.lru_cache(maxsize=1024)
def _parts_of(file: Location, _as_it_is: Stat) -> Kept | None:
    text = unsealed(file)
    if text is None:
        return None
    facts = file.name.split("-")[-2]
    head, apart, program = text.partition("\n")
    return Kept(facts, program, tuple(json.loads(head)["definitions"])) if apart else Kept(facts, head)


@functools.lru_cache(maxsize=1024)
def _program(text: str) -> Program:
    return from_json(Program, text)


@functools.cache
def versions() -> dict[str, str]:
    """What is installed of all that decides how a view is compiled."""
    found = {}
    for name in _READERS:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@functools.cache
def compiler_fingerprint() -> str:
    """A hash of the compiler's own text and of the versions of its readers: others' programs are not reused."""
    return fingerprint(_COMPILER, versions())


def fingerprint(parts: Collection[str], read_by: Mapping[str, str]) -> str:
    """A hash of the text of some parts of this package, and of versions."""
    digest = hashlib.sha256(json.dumps(read_by, sort_keys=True).encode())
    package = Path(__file__).parent.parent
    for name in parts:
        for file in sorted((package / name).rglob("*.py")) or [package / name]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]

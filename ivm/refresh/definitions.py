"""Whether state can be carried on by a view's program: both have one definition, or an older version's words for it.

    state.definition == compiled.definition      the same
    else, of another version                     the same if the program that it stands for, described by this one, is

Where nothing tells what an older definition stands for, the view is built anew: never wrong, and never silent about it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ivm.errors import StateError
from ivm.plan.nodes import Program
from ivm.refresh import programs
from ivm.refresh.records import Manifest, program_json
from ivm.refresh.views import Compiled, in_mode
from ivm.rewrite.identity import DEFINITION_VERSION, definition, version_of
from ivm.storage.location import Location

CHANGED = "the view's definition, or the columns it reads, changed"


def difference(known: str, compiled: Compiled, cache: Location) -> str:
    """Why state of the definition `known` can't be carried on by a view's program; "" where it can."""
    if known == compiled.definition:
        return ""
    if version_of(known) == DEFINITION_VERSION:
        return CHANGED
    by = next((p for p in _candidates(compiled, cache) if _stands_for(p, compiled, known)), None)
    if by is None:
        return (
            f"it was built by an ivm that described views in another way (version {version_of(known)}, this one's is "
            f"{DEFINITION_VERSION}), and the program that built it is not kept, or can't be read any more"
        )
    then = in_mode(by.program, compiled.view.mode)
    return "" if definition(then, compiled.view.sql, compiled.reads) == compiled.definition else CHANGED


def accepted(manifest: Manifest, compiled: Mapping[str, Compiled], cache: Location) -> dict[str, str]:
    """By unit, the definition of this version for state of another version's that can be carried on."""
    found: dict[str, str] = {}
    for view, one in compiled.items():
        state = manifest.units.get(view)
        if state is not None and state.definition != one.definition and not difference(state.definition, one, cache):
            found |= {unit: one.definition for unit in one.unit_names if unit in manifest.units}
    return found


def _candidates(compiled: Compiled, cache: Location) -> Iterator[programs.Kept]:
    """Programs that a definition of another version may stand for: the view's own, and those that are kept of it."""
    yield programs.Kept(compiled.facts, program_json(compiled.program))
    for found in programs.kept(cache, compiled.view.name):
        if _readable(found) and (found.program.units or found.facts == compiled.facts):
            yield found


def _readable(found: programs.Kept) -> bool:
    """Whether nothing of a kept program is lost on this version: it reads all that was written."""
    try:
        return _holds(json.loads(program_json(found.program)), json.loads(found.text))
    except (StateError, ValueError):
        return False


def _holds(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(k in whole and _holds(whole[k], v) for k, v in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(_holds, whole, part))
    return bool(whole == part)


def _stands_for(found: programs.Kept, compiled: Compiled, known: str) -> bool:
    if found.definitions is not None:
        return known in found.definitions
    return version_of(known) == 1 and known == version_1(found.text, found.program, found.facts, compiled)


def version_1(text: str, program: Program, facts: str, compiled: Compiled) -> str:
    """The first versions' definition of a program: a hash of its JSON as they wrote it, or of what it is made from."""
    known = facts
    if program.units:
        padded = "".join(f"{n}.{c.name} {c.type}" for n, r in sorted(compiled.reads.items()) for c in r.padded)
        known = _hash(text + padded)
    elif program.functions:
        known = _hash(f"{facts}/{program.functions}")
    return _hash(f"{known}/full") if compiled.view.mode == "full" and program.incremental else known


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

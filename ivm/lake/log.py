"""The log of a Delta table, file by file: who committed what, and whether it is still the history that was read.

Invariant: a table whose commit v has the fingerprint that was kept is the table that was read, and what it held at
v is what it held then; a version number alone says neither (backups are restored, folders are replaced).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ivm.errors import StateError
from ivm.lake import native
from ivm.lake.commits import commit_file, fingerprint
from ivm.storage.location import Location

#: The key of commitInfo under which our own maintenance says whose it is.
TAG = "ivm"
#: The key of commitInfo that holds a commit's note; Spark calls what its writers add so.
NOTE = "userMetadata"


@dataclass(frozen=True)
class Head:
    """A table of ours as a committed epoch left it: its id, newest version and that commit's fingerprint."""

    table_id: str
    version: int
    fingerprint: str


@dataclass(frozen=True)
class Since:
    """What came after a head: `version` is the newest one; `foreign` says what others changed, `own` whether we did.

    `epochs` are those under whose numbers we did, as far as that was looked at.
    """

    version: int
    foreign: str = ""
    own: bool = False
    epochs: tuple[int, ...] = ()


def tag(owner: str) -> dict[str, str]:
    """What commits that carry no application transaction say: whose they are, where they are somebody's."""
    return {TAG: owner} if owner else {}


def note_of(owner: str) -> str:
    """The same as a note, for writers who can add nothing else to a commit.

    >>> note_of("a1b2")
    'ivm/a1b2'
    """
    return f"{TAG}/{owner}"


def head_of(path: str) -> Head:
    """A table's head as it is now. Raises what delta-rs raises where there is no table."""
    delta = native.table(path)
    version = delta.version()
    return Head(str(delta.metadata().id), version, fingerprint(path, version))


def own_head(path: str, owner: str, known: Head | None = None) -> Head:
    """A table's head, where the last commit that changed rows is the owner's, or isn't later than the `known` head.

    An earlier owner's commits are known where the epoch log was lost and its tables were taken over.
    Raises StateError where somebody else's is.
    """
    head = _newest(path, known)
    first = known.version + 1 if known is not None and known.table_id == head.table_id else 0
    for version in range(head.version, first - 1, -1):
        actions = actions_of(path, version)
        if actions is None or is_own(actions, owner):
            break
        if what := foreign_change(actions):
            raise StateError(
                f"The table {path} was changed by somebody else meanwhile: {what} at version {version}.",
                "It is built anew by the next refresh.",
            )
    return head


def _newest(path: str, known: Head | None) -> Head:
    """A table's head: by its log's files after the known one where that still stands, since opening a table is dear."""
    if known is None or fingerprint(path, known.version) != known.fingerprint:
        return head_of(path)
    version = known.version
    while commit_file(path, version + 1).stat() is not None:
        version += 1
    return known if version == known.version else Head(known.table_id, version, fingerprint(path, version))


def since(path: str, head: Head, owner: str) -> Since:
    """What was committed to a table after a head; `owner` is the identity that our own commits carry.

    Commits that only move rows between files, or only set properties, are maintenance, whoever made them.
    """
    known = fingerprint(path, head.version)
    if known and known != head.fingerprint:
        return Since(head.version, f"version {head.version} is another commit than the one that was made there")
    if not known:
        try:
            now = native.table(path)
        except Exception:  # noqa: BLE001 - whatever keeps it from being opened, it is not there for us
            return Since(head.version, "its log is gone or can't be read")
        if str(now.metadata().id) != head.table_id:
            return Since(head.version, "another table lies in its place")
        if now.version() < head.version:
            return Since(now.version(), f"it went back from version {head.version} to {now.version()}")
        if now.version() > head.version and commit_file(path, head.version + 1).stat() is None:
            return Since(now.version(), f"what was done after version {head.version} is not in its log any more")
    version, own, epochs = head.version, False, tuple[int, ...]()
    while (actions := actions_of(path, version + 1)) is not None:
        version += 1
        if is_own(actions, owner):
            own = own or _changes_rows(actions)
            epochs += tuple(int(a["txn"]["version"]) for a in actions if "txn" in a)
        elif what := foreign_change(actions):
            return Since(version, f"{what} at version {version} was not ours", own, epochs)
    return Since(version, "", own, epochs)


def read_actions(file: Location) -> tuple[Mapping[str, Any], ...]:
    """The actions of a commit file, in order. Raises FileNotFoundError where it is gone."""
    return tuple(json.loads(line) for line in file.read().decode().split("\n") if line.strip())


def actions_of(path: str, version: int) -> tuple[Mapping[str, Any], ...] | None:
    """The actions of a version's commit; None where its file is gone, or not there yet."""
    try:
        return read_actions(commit_file(path, version))
    except FileNotFoundError:
        return None


def is_own(actions: Iterable[Mapping[str, Any]], owner: str) -> bool:
    """Whether a commit was made under an application transaction of the owner's, or carries its tag."""
    for action in actions:
        info = action.get("commitInfo") or {}
        if info.get(TAG) == owner or info.get(NOTE) == note_of(owner):
            return True
        if f"/{owner}/" in (action.get("txn") or {}).get("appId", ""):
            return True
    return False


def is_any_of_ours(path: str) -> bool:
    """Whether a table's log has a commit of some pipeline's of ivm, as far as it goes back."""
    for version in range(native.table(path).version(), -1, -1):
        actions = actions_of(path, version)
        if actions is None:
            break
        apps = [(action.get("txn") or {}).get("appId", "") for action in actions]
        if any(app.startswith(f"{TAG}/") for app in apps) or any(TAG in (a.get("commitInfo") or {}) for a in actions):
            return True
    return False


def _changes_rows(actions: Iterable[Mapping[str, Any]]) -> bool:
    return any((a.get(kind) or {}).get("dataChange", False) for a in actions for kind in ("add", "remove"))


def foreign_change(actions: Iterable[Mapping[str, Any]]) -> str:
    """The operation by which a commit changed rows or columns; "" for maintenance."""
    actions = tuple(actions)
    operation = next((a["commitInfo"].get("operation", "") for a in actions if "commitInfo" in a), "") or "a commit"
    if _changes_rows(actions):
        return str(operation)
    # Only what is done by these leaves the columns as they are;
    # any other change of metadata is taken for one of columns.
    harmless = (
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "CLUSTER BY",
        "UPGRADE PROTOCOL",
        "ADD FEATURE",
        "CHANGE COLUMN COMMENT",
    )
    if any("metaData" in a for a in actions) and operation not in harmless:
        return str(operation)
    return ""

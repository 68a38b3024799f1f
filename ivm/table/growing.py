"""A table that mostly grows: of one that was read only the files that came since are read.

read()     None where nothing changed, which one listing of its log and one look at a file tell
rows       those of new files; all where files went, or another table lies there
append()   by the handle that reads it: opening a table takes as long as the commit
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from ivm.lake import native, parquet
from ivm.lake.commits import commit_file, fingerprint
from ivm.lake.log import tag
from ivm.lake.shapes import plain
from ivm.storage.location import Location
from ivm.table.protocol import Commit

_log = logging.getLogger(__name__)


#: Of more files a query takes twice as long as reading them; of so few, as long as importing what reads them.
FEW_FILES = 64


@dataclass(frozen=True)
class Grown:
    """Rows that were read; `whole` says that they are all of the table's, not those that came since."""

    rows: pa.Table
    whole: bool


class GrowingTable:
    """One reader of such a table, in the lane of delta-rs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._delta: DeltaTable | None = None
        #: The fingerprint of the newest commit that was read, and what the log's files were called before that.
        self._seen, self._names = "", frozenset[str]()
        self._files: frozenset[str] = frozenset()
        #: What was appended here since the last look, where nothing else came: its files needn't be read.
        self._own: list[pa.Table] = []

    def forget(self) -> None:
        """Know nothing of it, as a reader that begins."""
        self._delta, self._files, self._own = None, frozenset(), []

    def create(self, schema: pa.Schema, name: str, configuration: Mapping[str, str]) -> None:
        """Make it where there is none."""
        if not native.exists(self.path):
            write_deltalake(
                self.path, schema.empty_table(), name=name, mode="ignore", configuration=dict(configuration)
            )

    def name(self) -> str | None:
        """What it was called when it was made; None where there is no table."""
        return native.table(self.path).metadata().name if native.exists(self.path) else None

    def read(self) -> Grown | None:
        """What came since the last look; None where nothing did. Where there is no table there are no rows."""
        names = native.log_names(self.path)
        if not native.holds_commits(names):
            self.forget()
            return Grown(pa.table({}), True)
        if self._delta is not None and names == self._names and self._stands(self._delta):
            return self._appended()
        self._names = names
        try:
            return self._read()
        # files that another process removes behind a checkpoint, at this moment
        except Exception as error:  # noqa: BLE001
            _log.debug("the table is read again: %s", error)
            self.forget()
            return self._read()

    def _read(self) -> Grown | None:
        begun = self._delta is None or not self._stands(self._delta)
        self._delta = self._newest()
        self._seen = fingerprint(self.path, self._delta.version())
        files, known = frozenset(native.file_names(self._delta)), self._files
        if files == known and (known or not begun):
            return self._appended()
        # The rows of a table with reader features are not all that its files hold.
        plain_files = not self._delta.protocol().reader_features
        grown = plain_files and bool(known) and known < files
        if grown or (plain_files and len(files) > FEW_FILES):
            place = Location.of(self.path)
            read = [place / name for name in sorted(files - known if grown else files)]
            rows = plain(parquet.dataset(*read).to_table())
        else:
            rows = native.read(self._delta)
        own, self._own = self._own, []
        self._files = files
        return Grown(pa.concat_tables([*own, rows]) if grown else rows, not grown)

    def _appended(self) -> Grown | None:
        """What was appended here since the last look."""
        own, self._own = self._own, []
        return Grown(pa.concat_tables(own), False) if own else None

    def _stands(self, known: DeltaTable) -> bool:
        """Whether the newest commit that was read is still the one of that number."""
        return fingerprint(self.path, known.version()) == self._seen

    def _newest(self) -> DeltaTable:
        """The table as it is now.

        It is opened anew where the commit that we know, or one after it, was cleaned up behind a checkpoint, and where
        somebody removed it, or put another one in its place: no file has the name of one of ours then.
        """
        if self._delta is not None and self._stands(self._delta):
            try:
                self._delta.update_incremental()
                return self._delta
            except Exception as error:  # noqa: BLE001 - whatever it is, opening the table tells whether it stands
                _log.debug("the table is opened anew: %s", error)
        return DeltaTable(self.path)

    @property
    def files(self) -> int:
        """How many files were read."""
        return len(self._files)

    def append(self, rows: pa.Table, commit: Commit) -> bool:
        """As `ivm.table.protocol.Table.append`, of a table that was made."""
        delta, self._delta = self._newest(), None  # whatever fails, it is opened anew
        before = delta.version()
        made = native.append_by(delta, self.path, rows, commit.app, commit.version)
        self._delta, self._seen = delta, fingerprint(self.path, delta.version())
        if made and delta.version() == before + 1:
            self._take(delta, rows)
        return made

    def _take(self, delta: DeltaTable, rows: pa.Table) -> None:
        """Take rows that were just appended for read, if their file is all that came since the last look."""
        names, files = native.log_names(self.path), frozenset(native.file_names(delta))
        newest = commit_file(self.path, delta.version() + 1).name not in names
        if newest and self._files and self._files < files and len(files) == len(self._files) + 1:
            self._files, self._names = files, names
            self._own.append(rows)

    def keep_only(self, rows: pa.Table, owner: str) -> None:
        """Put rows in the place of those that were read: what another process adds meanwhile is not among them.

        What isn't needed any more is removed at once.
        """
        assert self._delta is not None, "it was read"
        write_deltalake(self._delta, rows, mode="overwrite", commit_properties=native.properties("", 0, tag(owner)))
        native.vacuum(self.path, 0, native.properties("", 0, tag(owner)))

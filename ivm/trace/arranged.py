"""Arranged traces: the history of a collection as a plain Delta table, keyed, with times from any lattice.

    (key..., value..., time_0, time_1, ..., diff...)        one row an update; any engine can query it

A trace is a sequence of batches: each holds the updates at times at or beyond its `lower` frontier and not beyond its
`upper`. `since` is how far times have been advanced: reads at times beyond it are exact, others are refused. The
frontiers are in the metadata of the commits that moved them, so they and the rows move together. So is the version at
which such a commit was meant to come: where another one came before it or after it that changed rows, nothing is read
any more.
Source: differential dataflow's trace and its descriptions (lower, upper, since).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake

from ivm.errors import StateError
from ivm.lake import native
from ivm.lake.files import put_files, takes_files
from ivm.lake.keyed import KeyedReader
from ivm.lake.log import actions_of, foreign_change
from ivm.lake.shapes import arrow_schema
from ivm.names import WEIGHT, native_ident
from ivm.planner.limits import EMBEDDED
from ivm.storage.location import Location
from ivm.times.frontier import Frontier
from ivm.times.lattice import Time, checked, join
from ivm.zset.weighted import consolidate

_TAG = "ivm.description"
#: Nobody travels back in it, its times are columns: of its log only what follows the last checkpoint is of use.
_CONFIGURATION = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 0 days"}
#: The time column of a totally ordered trace.
TIME = "time_0"
#: The bytes of a row group of its files: small enough that a search for few keys reads little.
ROW_GROUP_BYTES = 8 << 20


@dataclass(frozen=True)
class Description:
    """Where a trace stands: its shape, `since` and `upper`."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    diffs: tuple[str, ...]
    dimensions: int
    since: Frontier
    upper: Frontier
    #: What it is a trace of, for whoever keeps it: another origin is another collection.
    origin: str = ""
    #: Which state of it the trace has followed up to, beyond its time: two that differ at one time went different ways.
    mark: str = ""
    #: The version that its commit was to have; another one, and somebody else committed meanwhile.
    version: int = -1

    def to_json(self) -> str:
        return json.dumps({**vars(self), "since": self.since.times, "upper": self.upper.times})

    @classmethod
    def from_json(cls, text: str) -> Description:
        found = json.loads(text)
        since, upper = (
            Frontier(tuple(tuple(t) if isinstance(t, list) else t for t in found[n])) for n in ("since", "upper")
        )
        return cls(
            tuple(found["keys"]), tuple(found["values"]), tuple(found["diffs"]), int(found["dimensions"]), since, upper,
            found["origin"], found.get("mark", ""), int(found.get("version", -1)),
        )  # fmt: skip


class ArrangedTrace:
    """One trace in one Delta table. Raises StateError where there is none at the path."""

    def __init__(self, path: str) -> None:
        self.path = path
        if not native.exists(path):
            raise StateError(f"There is no trace at {path}.", "Make it with ArrangedTrace.create.")

    @classmethod
    def create(
        cls,
        path: str,
        keys: Mapping[str, pa.DataType],
        values: Mapping[str, pa.DataType],
        diffs: Mapping[str, pa.DataType],
        dimensions: int = 1,
    ) -> ArrangedTrace:
        """An empty trace.

        `diffs` are the parts of its Abelian group (one weight, or sums and counts); times have `dimensions` parts.
        """
        zero: Time = 0 if dimensions == 1 else (0,) * dimensions
        description = Description(
            tuple(keys), tuple(values), tuple(diffs), dimensions, Frontier.of(zero), Frontier.of(zero)
        )
        times = {f"time_{i}": pa.int64() for i in range(dimensions)}
        schema = pa.schema([*keys.items(), *values.items(), *times.items(), *diffs.items()])
        properties = _committed(description, 0)
        write_deltalake(
            path, schema.empty_table(), mode="error", configuration=_CONFIGURATION, commit_properties=properties
        )
        return cls(path)

    @classmethod
    def load(
        cls, path: str, keys: Sequence[str], rows: Location, schema: pa.Schema, at: int, origin: str, mark: str = ""
    ) -> ArrangedTrace:
        """The trace of a collection that is known in whole at a time.

        `rows` is a folder of Parquet files with (keys, values, time_0, weight), which become the table's own in the
        place of what was there. Rows sorted by key are found by few reads: files, row groups and pages know their least
        and greatest key. Raises StateError where the files hold other columns than `schema`.
        """
        *columns, _, weight = schema.names
        description = Description(
            tuple(keys), tuple(columns[len(keys) :]), (weight,), 1, Frontier.of(at), Frontier.of(at + 1), origin, mark
        )
        if not takes_files(path, schema):
            Location.of(path).drop()
        version = DeltaTable(path).version() + 1 if native.exists(path) else 0
        put_files(path, rows, "overwrite", _committed(description, version), schema, _CONFIGURATION)
        return cls(path)

    @property
    def description(self) -> Description:
        """Where the trace stands.

        Raises StateError where somebody else changed its rows; files that were only rewritten are accepted.
        """
        return self._opened()[1]

    def _opened(self) -> tuple[DeltaTable, Description]:
        delta = DeltaTable(self.path)
        for version in range(delta.version(), -1, -1):
            actions = actions_of(self.path, version)
            if actions is None:
                break
            left = next((a["commitInfo"][_TAG] for a in actions if _TAG in a.get("commitInfo", {})), "")
            if left:
                found = Description.from_json(left)
                if found.version == version:
                    return delta, found
                raise StateError(
                    f"The trace at {self.path} was changed by somebody else before version {version}.",
                    "Remove it; it is made anew.",
                )
            if what := foreign_change(actions):
                raise StateError(
                    f"The trace at {self.path} was changed by somebody else: {what} at version {version}.",
                    "Remove it; it is made anew.",
                )
        raise StateError(f"The table at {self.path} is no trace of ours.", "Choose another path.")

    # -- writing ----------------------------------------------------------------------------------

    def append(self, batch: pa.Table, upper: Frontier, mark: str = "") -> None:
        """Add the updates of the times from the trace's upper frontier to a new one.

        Raises StateError for updates outside.
        """
        delta, now = self._opened()
        if not upper.beyond(now.upper):
            raise StateError(
                f"The trace is complete up to {now.upper.times}; a batch can't end at {upper.times}.",
                "Append batches in the order of their frontiers.",
            )
        _known(batch.column_names, (*now.keys, *now.values, *_times(now), *now.diffs), "The batch")
        times = batch.group_by(_times(now), use_threads=False).aggregate([])
        for time in {_time(row) for row in zip(*(times[c].to_pylist() for c in _times(now)), strict=True)}:
            if not now.upper.reached_by(time) or upper.reached_by(time):
                raise StateError(
                    f"An update at {time!r} is outside of this batch, from {now.upper.times} to {upper.times}.",
                    "Give each update to the batch of its time.",
                )
        schema = arrow_schema(delta.schema().to_json())
        committed = _committed(replace(now, upper=upper, mark=mark), delta.version() + 1)
        write_deltalake(delta, batch.select(schema.names).cast(schema), mode="append", commit_properties=committed)

    def advance(self, since: Frontier) -> None:
        """Logical compaction: advance all times by a frontier and add up what became equal.

        Readers at or beyond it see no difference.
        """
        delta, now = self._opened()
        if not since.beyond(now.since):
            raise StateError(
                f"The trace was advanced to {now.since.times} already, not before {since.times}.",
                "A since frontier only moves forward.",
            )
        parts = [f if isinstance(f, tuple) else (f,) for f in since]
        advanced = []
        for i, name in enumerate(_times(now)):
            ends = ", ".join(f"greatest({native_ident(name)}, {int(p[i])})" for p in parts)
            advanced.append(
                f"least({ends}) AS {native_ident(name)}" if len(parts) > 1 else f"{ends} AS {native_ident(name)}"
            )
        plain = [native_ident(c) for c in (*now.keys, *now.values)]
        inner = f"SELECT {', '.join([*plain, *advanced, *map(native_ident, now.diffs)])} FROM t"
        rows = self._summed(now, inner, (*now.keys, *now.values, *_times(now)))
        schema = arrow_schema(delta.schema().to_json())
        write_deltalake(
            delta,
            rows.cast(schema),
            mode="overwrite",
            commit_properties=_committed(replace(now, since=since), delta.version() + 1),
        )

    def rewrite(self) -> None:
        """Physical compaction: small files become large ones; no row changes."""
        delta, now = self._opened()
        delta.optimize.compact(commit_properties=_committed(now, delta.version() + 1))

    # -- reading ----------------------------------------------------------------------------------

    def read(self, as_of: Time, first: Any = None, last: Any = None) -> pa.Table:
        """The collection at a time (keys, values, diffs).

        Of all keys, or of those from `first` to `last` by the first key column.
        Raises StateError below `since` and where the trace is not complete yet.
        """
        now = self.description
        self._check(now, as_of)
        return self._summed(
            now, f"SELECT * FROM t WHERE {_upto(now, as_of)}{_range(now, first, last)}", (*now.keys, *now.values)
        )

    def matching(
        self,
        as_of: Time,
        columns: Sequence[str],
        wanted: Sequence[tuple[Sequence[str], pa.Table, bool]],
        scratch: Location,
        literals: int = EMBEDDED.literal_keys,
    ) -> pa.Table:
        """The rows at a time that have any of the `wanted` keys: `columns`, as often as they occur.

        The keys and `literals` are as `ivm.lake.keyed` takes them.
        Raises StateError below `since`, where the trace is not complete yet, and where a row would occur less than zero
        times.
        """
        now = self.description
        self._check(now, as_of)
        _known(
            (*now.keys, *now.values), [*columns, *(c for mine, *_ in wanted for c in mine)], f"The trace at {self.path}"
        )
        reader = KeyedReader(self.path, DeltaTable(self.path), literals)
        rows = reader.find([*columns, *now.diffs], wanted, scratch, _upto(now, as_of, "t."))
        found = consolidate(rows.rename_columns([*columns, WEIGHT]), columns)
        negative = found.filter(pc.less(found[WEIGHT], 0))
        if negative.num_rows:
            raise StateError(
                f"The trace at {self.path} holds {negative.to_pylist()[0]} less than zero times at {as_of!r}.",
                "Remove it; it is made anew.",
            )
        return found.select(list(columns))

    def history(self, after: Time, upto: Time) -> pa.Table:
        """The updates that `upto` sees and `after` doesn't, with their times. Raises StateError below `since`."""
        now = self.description
        self._check(now, after)
        self._check(now, join(after, upto))
        condition = f"{_upto(now, upto)} AND NOT ({_upto(now, after)})"
        return self._summed(now, f"SELECT * FROM t WHERE {condition}", (*now.keys, *now.values, *_times(now)))

    def _check(self, now: Description, time: Time) -> None:
        checked(time)
        if (len(time) if isinstance(time, tuple) else 1) != now.dimensions:
            raise StateError(
                f"Times of this trace have {now.dimensions} parts, unlike {time!r}.", "Give one number for each."
            )
        if not now.since.reached_by(time):
            raise StateError(
                f"The trace was compacted up to {now.since.times}: what it held at {time!r} is gone.",
                "Read at or beyond that frontier.",
            )
        if now.upper.reached_by(time):
            raise StateError(
                f"The trace is complete up to {now.upper.times}, not yet at {time!r}.", "Append what is missing first."
            )

    def _summed(self, now: Description, rows: str, columns: Sequence[str]) -> pa.Table:
        listed = ", ".join(native_ident(c) for c in columns)
        sums = ", ".join(f"sum({native_ident(d)}) AS {native_ident(d)}" for d in now.diffs)
        some = " OR ".join(f"sum({native_ident(d)}) <> 0" for d in now.diffs)
        return native.query(
            f"SELECT {listed}, {sums} FROM ({rows}) AS u GROUP BY {listed} HAVING {some} ORDER BY {listed}",
            {"t": DeltaTable(self.path)},
        )


def _known(names: Sequence[str], wanted: Sequence[str], what: str) -> None:
    missing = [c for c in wanted if c not in names]
    if missing:
        raise StateError(f"{what} has no column {', '.join(missing)}.", f"It has: {', '.join(names)}.")


def _committed(description: Description, version: int) -> CommitProperties:
    return CommitProperties(custom_metadata={_TAG: replace(description, version=version).to_json()})


def _times(description: Description) -> list[str]:
    return [f"time_{i}" for i in range(description.dimensions)]


def _time(parts: tuple[int, ...]) -> Time:
    return parts[0] if len(parts) == 1 else parts


def _upto(description: Description, time: Time, of: str = "") -> str:
    parts = time if isinstance(time, tuple) else (time,)
    return " AND ".join(f"{of}{native_ident(n)} <= {int(p)}" for n, p in zip(_times(description), parts, strict=True))


def _range(description: Description, first: Any, last: Any) -> str:
    column = native_ident(description.keys[0])
    return "".join(f" AND {column} {op} {_literal(v)}" for op, v in ((">=", first), ("<=", last)) if v is not None)


def _literal(value: Any) -> str:
    return repr(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"

"""Datasets whose rows go through this process, since they are few: read by delta-rs, handed to Spark as Parquet."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ivm.engine.once import Once
from ivm.errors import LargeReadError, LargeSliceError
from ivm.feed.datasets import NOTHING, Asker, Datasets, Part
from ivm.feed.found import FoundRows, any_of, but
from ivm.feed.input import Input
from ivm.lake import native, parquet
from ivm.lake.keyed import KeyedReader
from ivm.lake.keys import distinct, ends, filtered, wide
from ivm.lake.shapes import plain
from ivm.names import WEIGHT
from ivm.plan.nodes import IN_NEW, IN_OLD, Column
from ivm.planner.arranging import KeyedRead, least
from ivm.rewrite.delta_join import State
from ivm.rewrite.slices import DELTA, WHOLE, Match, Provider, Requests
from ivm.table.protocol import Wanted
from ivm.table.slices import slice_sql
from ivm.table.spark import picked_by
from ivm.zset.weighted import staying


@dataclass(frozen=True)
class _Piece:
    """What one round read of a relation: all rows that its matches mean, with the columns of those who ask for any."""

    rows: pa.Table
    matches: frozenset[Match]
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True)
class _Recalled:
    """What was found before of what is wanted, each row once: what of it that answers (`known`), and what is `left`."""

    parts: Sequence[pa.Table]
    known: Sequence[Wanted]
    left: Sequence[Wanted]

    def table(self, schema: pa.Schema) -> pa.Table:
        return pa.concat_tables([schema.empty_table(), *self.parts])


@dataclass(frozen=True)
class _Own:
    """What some units ask for of a relation apart from others: the same matches, the columns that any of them reads."""

    number: int
    matches: frozenset[Match]
    columns: tuple[str, ...]


class ArrowDatasets(Datasets):
    """Slices are Arrow tables.

    Of a relation of many rows each round reads the columns that those need who ask in it, and each unit gets what it
    asked for itself; of fewer rows (`shared_rows`) all get the same. Loading raises LargeSliceError for a slice of more
    rows than the profile's `slice_rows`.
    """

    def _begin(self) -> None:
        self._wholly: dict[str, pa.Table] = {}
        self._pieces: dict[str, list[_Piece]] = {}
        self._keys_of: dict[Match, pa.Table] = {}
        #: Of tables of rows that were read, by their identities: which rows are in both states.
        self._stays: dict[int, pa.Array] = {}
        self._stays_told = Once()
        self._found = FoundRows(0)
        #: What the rounds before found: it is not read again for this one.
        self._mine = FoundRows(sys.maxsize)
        self._askers: Sequence[Asker] = ()
        self._later: Mapping[str, Collection[str]] = NOTHING
        #: What is told apart of a relation, and what this view of the datasets reads of it.
        self._apart: dict[str, dict[frozenset[Match], _Own]] = {}
        self._own: dict[str, _Own] = {}
        #: How many rows those read who ask apart, once that was told.
        self._counted: dict[tuple[str, int], int] = {}

    def sharing(self, found: FoundRows) -> ArrowDatasets:
        """These datasets, recalling what others of the epoch found, and letting them recall what these find."""
        self._found = found
        return self

    def load(
        self, requests: Requests, askers: Sequence[Asker] = (), later: Mapping[str, Collection[str]] = NOTHING
    ) -> None:
        self._askers, self._later = askers, later
        self._apart = {r: self._told_apart(r) for r in {r for r, _ in requests.matches} if self._is_large(r)}
        super().load(requests)
        for relation, pieces in self._pieces.items():
            source = self.inputs[relation]
            for piece in pieces:
                self._found.keep(source.path, source.version, piece.rows, piece.wanted)

    def seen_by(self, asker: Asker) -> ArrowDatasets:
        view = super().seen_by(asker)
        assert isinstance(view, ArrowDatasets)
        view._own = {r: apart[asker.of(r)] for r, apart in self._apart.items() if r not in self._wholly}
        return view

    def _is_large(self, relation: str) -> bool:
        rows = self.inputs[relation].rows
        return bool(self._askers) and (rows is None or rows > self._limits.shared_rows)

    def _told_apart(self, relation: str) -> dict[frozenset[Match], _Own]:
        columns: dict[frozenset[Match], set[str]] = {}
        for asker in self._askers:
            columns.setdefault(asker.of(relation), set()).update(asker.reads(relation))
        return {
            matches: _Own(number, matches, self._in_order(relation, columns[matches]))
            for number, matches in enumerate(sorted(columns, key=lambda of: sorted(map(repr, of))))
        }

    def _in_order(self, relation: str, names: Collection[str]) -> tuple[str, ...]:
        """The relation's columns of these names; at least one, since a row needs one."""
        known = self.inputs[relation].schema.names
        return tuple(n for n in known if n in names) or tuple(known[:1])

    def _called(self, relation: str, part: Part) -> str:
        own = self._own.get(relation) if part is not Part.DELTA else None
        return super()._called(relation, part) if own is None else self._name_of(f"{part.value}_{own.number}", relation)

    def _slice_rows(self, relation: str) -> int:
        """Until they were told apart at most so many: those of the rounds in which it was asked for."""
        own = self._own.get(relation)
        if own is None:
            return super()._slice_rows(relation)
        if (relation, own.number) in self._counted:
            return self._counted[relation, own.number]
        return sum(p.rows.num_rows for p in self._pieces.get(relation, ()) if p.matches & own.matches)

    def _slice(self, relation: str, unchanged: bool = False) -> pa.Table:
        """The rows of a relation that this view of the datasets reads, each once; only the `unchanged` ones.

        These are told of all rows that were read together, for all who read some of them: rows that are alike in the
        columns of a piece are wanted by the same keys, and so are in a slice, all of them, or not.
        """
        if relation in self._wholly:
            rows = self._wholly[relation]
            return rows.filter(self._unchanged(relation, rows)) if unchanged else rows
        own = self._own.get(relation)
        columns = self.inputs[relation].schema.names if own is None else list(own.columns)
        schema = self._schema(relation, columns)
        parts, before, count = [schema.empty_table()], list[Wanted](), 0
        for piece in self._pieces.get(relation, ()):
            mine = piece.matches if own is None else piece.matches & own.matches
            if not mine or not piece.wanted:
                continue
            wanted, rows = self._wanted(mine), piece.rows
            if mine == piece.matches:
                mask = pa.repeat(pa.scalar(value=True), rows.num_rows)
            elif wanted:
                mask = any_of(wanted, rows)
            else:
                continue
            if before:
                mask = pc.and_not(mask, any_of(before, rows))
            count += pc.sum(mask).as_py() or 0
            kept = pc.and_(mask, self._unchanged(relation, rows)) if unchanged else mask
            parts.append(rows.select(columns).filter(kept))
            before += wanted
        if own is not None:
            self._counted[relation, own.number] = count
        return pa.concat_tables(parts)

    def _unchanged(self, relation: str, rows: pa.Table) -> pa.Array:
        """Which of the rows that were read are in both states; told once for each table of rows."""

        def tell() -> None:
            self._stays[id(rows)] = staying(rows, self._moved(relation, self.inputs[relation].base, rows.schema))

        self._stays_told.make(str(id(rows)), tell)
        return self._stays[id(rows)]

    def _moved(self, relation: str, state: State, schema: pa.Schema) -> pa.Table:
        """The delta's rows that are in one state and not in the other."""
        delta, weight = self._delta(relation), 1 if state is State.NEW else -1
        assert delta is not None
        return delta.select(schema.names).filter(pc.equal(delta[WEIGHT], weight)).cast(schema)

    @classmethod
    def beside(cls, other: Datasets, tag: str, inputs: Mapping[str, Input]) -> ArrowDatasets:
        """Datasets of more inputs than another's, with names of their own."""
        return cls(other._spark, other._scratch, f"{other.tag}_{tag}", inputs, other._limits, other.bound)

    def read_rows(self, relation: str, rows: pa.Table) -> pa.Table:
        """The rows of a native table that equal one of `rows` in all columns that these have, NULLs equal."""
        source = self.inputs[relation]
        keys = wide(rows).rename_columns([f"k{i}" for i in range(rows.num_columns)])
        folder = self._place_of("found", relation)
        wanted = [(rows.column_names, keys, False)]
        found = self._reader(relation).find(source.schema.names, wanted, folder, most=self._limits.slice_rows)
        return found.cast(source.schema)

    def _reader(self, relation: str) -> KeyedReader:
        """Who finds rows of a native table by their keys."""
        source = self.inputs[relation]
        return self._found.reader(source.path, source.version, self._limits.literal_keys)

    def _delta(self, relation: str) -> pa.Table | None:
        delta = self.inputs[relation].delta
        assert delta is None or isinstance(delta, pa.Table), f"the delta of {relation} is staged"
        return delta

    def _load_whole(self, relation: str) -> None:
        source = self.inputs[relation]
        found = source.given
        if source.native and source.rows is not None and source.rows <= self._limits.native_whole_rows:
            table = native.table(source.path, source.version)
            found = native.read(table, [c.name for c in source.columns]).cast(source.schema)
        if found is not None:
            self._wholly[relation] = found
            self._whole.add(relation)
            self._sliced[relation] = found.num_rows

    def _load_round(self, number: int, asked: Mapping[str, set[Match]]) -> None:
        """The keys of all relations first, from the rows of earlier rounds; then the relations are read."""
        with ThreadPoolExecutor(self._limits.threads) as pool:
            wanted = dict(zip(asked, pool.map(self._wanted, asked.values()), strict=True))
            found = list(pool.map(lambda r: self._read_pieces(r, number, asked[r], wanted[r]), wanted))
        for relation, pieces in zip(wanted, found, strict=True):
            source = self.inputs[relation]
            for piece in pieces:
                self._pieces.setdefault(relation, []).append(piece)
                self._mine.keep(source.path, source.version, piece.rows, piece.wanted)
                self._sliced[relation] = self._sliced.get(relation, 0) + piece.rows.num_rows

    def _read_pieces(self, relation: str, number: int, matches: set[Match], wanted: Sequence[Wanted]) -> list[_Piece]:
        """What a round reads of a relation; apart from it what is known, whose columns needn't be read for the rest."""
        pieces, asked, left = list[_Piece](), set(matches), list(wanted)
        told_apart = len(wanted) > 1 and relation in self._apart
        for one in [w for w in wanted if told_apart and not w.between]:
            mine = {m for m in matches if m.columns == one.columns and not m.between}
            columns = self._columns(relation, mine)
            known = self._recalled(relation, columns, [one])
            if not known.left:
                pieces.append(_Piece(known.table(self._schema(relation, columns)), frozenset(mine), (one,)))
                asked, left = asked - mine, [w for w in left if w is not one]
        most = self._limits.slice_rows - self._sliced.get(relation, 0) - sum(p.rows.num_rows for p in pieces)
        rows = self._read_round(relation, number, self._columns(relation, asked), left, most)
        return [*pieces, _Piece(rows, frozenset(asked), tuple(left))]

    def _schema(self, relation: str, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self.inputs[relation].schema.field(c) for c in columns])

    def _recalled(self, relation: str, columns: Sequence[str], wanted: Sequence[Wanted]) -> _Recalled:
        """What earlier rounds and other datasets found of it already."""
        source, schema = self.inputs[relation], self._schema(relation, columns)
        parts, known, left = list[pa.Table](), list[Wanted](), list(wanted)
        for found in (self._mine, self._found):
            recalled, answered, left = found.recall(source.path, source.version, columns, left)
            if recalled is not None:
                parts.append(but(known, recalled.cast(schema)))
                known += answered
        return _Recalled(parts, known, left)

    def _columns(self, relation: str, matches: set[Match]) -> list[str]:
        """The columns that those read who ask for any of these matches, and those who will afterwards."""
        if relation not in self._apart:
            return list(self.inputs[relation].schema.names)
        asking = (own for own in self._apart[relation].values() if own.matches & matches)
        names = itertools.chain(self._later.get(relation, ()), *(own.columns for own in asking))
        return list(self._in_order(relation, set(names)))

    def _wanted(self, matches: Collection[Match]) -> list[Wanted]:
        """What the matches ask for: the keys of the same columns together, each range by itself."""
        alike: dict[tuple[str, ...], list[pa.Table]] = {}
        ranges = []
        for match in sorted(matches, key=repr):
            keys = self._keys(match)
            if keys.num_rows and match.between:
                ranges.append(Wanted(match.columns, keys, between=True))
            elif keys.num_rows:
                alike.setdefault(match.columns, []).append(keys)
        together = {
            columns: distinct(pa.concat_tables([t.rename_columns(tables[0].column_names) for t in tables]))
            for columns, tables in alike.items()
        }
        return [*ranges, *(Wanted(columns, keys) for columns, keys in together.items())]

    def _read_round(
        self, relation: str, number: int, columns: Sequence[str], wanted: Sequence[Wanted], most: int
    ) -> pa.Table:
        """The rows that are wanted in a round, at most so many: recalled, or read."""
        source, schema = self.inputs[relation], self._schema(relation, columns)
        recalled = self._recalled(relation, columns, wanted)
        rows = recalled.table(schema)
        if recalled.left:
            try:
                found = self._read(source, number, columns, recalled.left, most).cast(schema)
            except LargeReadError as error:
                raise LargeSliceError(relation, str(error)) from error
            rows = pa.concat_tables([rows, but(recalled.known, found)])
        if rows.num_rows > most:
            raise LargeSliceError(relation, f"more than {most:,} rows")
        return rows

    def _read(
        self, source: Input, number: int, columns: Sequence[str], wanted: Sequence[Wanted], most: int
    ) -> pa.Table:
        """The rows of the relation's table that any of `wanted` means, each once; it is told how long it took."""
        started = time.perf_counter()
        found = self._searched(source, number, columns, wanted)
        arranged = found is not None
        if found is None:
            found = self._scanned_for(source, number, columns, wanted, most)
        self._tell(source, wanted, time.perf_counter() - started, arranged)
        return found

    def _searched(
        self, source: Input, number: int, columns: Sequence[str], wanted: Sequence[Wanted]
    ) -> pa.Table | None:
        """The rows that are wanted, found in arrangements; None where not all can be."""
        indexes = [index for w in wanted if (index := source.index(w)) is not None]
        if len(indexes) < len(wanted):
            return None
        folder = self._place_of(f"slice_{number}", source.relation)
        parts = []
        for i, index in enumerate(indexes):
            found = index.find(columns, wanted[i], folder / str(i))
            if found is None:
                return None
            parts.append(but(wanted[:i], found))
        return pa.concat_tables(parts)

    def _tell(self, source: Input, wanted: Sequence[Wanted], seconds: float, arranged: bool) -> None:
        """What a read took whose place an arrangement could take: of many rows, by keys."""
        if any(w.between for w in wanted) or (source.rows or 0) <= self._limits.arranged_rows:
            return
        changed = source.delta.num_rows if source.delta is not None else 0
        keys, values = least([tuple(w.columns) for w in wanted]), sum(w.keys.num_rows for w in wanted)
        many = source.rows or 0, len(source.columns), changed
        self._found.tell(KeyedRead(source.relation, keys, values, *many, round(seconds, 4), arranged))

    def _scanned_for(
        self, source: Input, number: int, columns: Sequence[str], wanted: Sequence[Wanted], most: int
    ) -> pa.Table:
        folder = self._place_of(f"slice_{number}", source.relation)
        keys = [(w.columns, w.keys, w.between) for w in wanted]
        if source.native:
            return self._reader(source.relation).find(columns, keys, folder, most=most)
        if source.searched:
            found = self._reader(source.relation).find_in_files(columns, keys, most=most)
            if found is not None:
                return found
        return self._slice_by_spark(source, number, columns, wanted, most)

    def _slice_by_spark(
        self, source: Input, number: int, columns: Sequence[str], wanted: Sequence[Wanted], most: int
    ) -> pa.Table:
        spark = self._spark()
        path = self._place_of(f"spark_{number}", source.relation)
        with picked_by(spark, wanted, self._name_of(f"keys_{number}", source.relation)) as picked:
            sql = slice_sql(self._table(source.relation), columns, picked, [])
            spark.sql(sql).write.mode("overwrite").parquet(path.spark)
        found = parquet.dataset(path)
        if found.count_rows() > most:
            raise LargeReadError(f"more than {most:,} rows")
        return plain(found.to_table())

    def _keys(self, match: Match) -> pa.Table:
        """Distinct values of the provider's columns, old and new state both; NULLs only where they match."""
        if match not in self._keys_of:
            provider = match.provider
            parts = []
            delta = self._delta(provider.relation)
            if delta is not None:
                parts.append(self._provided(delta, provider, [provider.via] if provider.via is not None else None))
            if provider.level != DELTA:
                parts += self._provided_by_slice(provider, self._rounds.through(match))
            keys = pa.concat_tables(parts) if parts else pa.table({})
            if match.between:
                self._keys_of[match] = ends(keys)
            else:
                self._keys_of[match] = distinct(keys if match.nulls else keys.drop_null()) if parts else keys
        return self._keys_of[match]

    def _provided_by_slice(self, provider: Provider, through: Sequence[Match] | None) -> list[pa.Table]:
        """As `_provided`, of the rows that are there by now. Who asks for the provider's columns asked for its rows."""
        if provider.relation in self._wholly:
            return [self._provided(self._wholly[provider.relation], provider, through)]
        parts = []
        for piece in self._pieces.get(provider.relation, ()):
            mine = None if through is None else [m for m in through if m in piece.matches]
            if mine != [] and provider.reads <= set(piece.rows.column_names):
                parts.append(self._provided(piece.rows, provider, mine))
        return parts

    def _provided(self, rows: pa.Table, provider: Provider, through: Sequence[Match] | None) -> pa.Table:
        """The provider's columns, called k0, k1, ..., of the rows that meet its filters and that `through` means.

        Of those that lack a partner as many are left out as is known.
        """
        needed = provider.reads.union(*(m.columns for m in through or ()))
        rows = filtered(rows.select([c for c in rows.column_names if c in needed]), provider.filters)
        told = [[m] for m in provider.partners if m.provider.level != WHOLE or m.provider.relation in self._wholly]
        for either in (*([through] if through is not None else []), *told):
            keys = {match: self._keys(match) for match in either} if rows.num_rows else {}
            wanted = [Wanted(m.columns, k, m.between) for m, k in keys.items() if k.num_rows]
            rows = rows.filter(any_of(wanted, rows)) if wanted else rows.slice(0, 0)
        return wide(rows.select(list(provider.columns)).rename_columns([f"k{i}" for i in range(len(provider.columns))]))

    def _register(self, name: str, relation: str, part: Part) -> None:
        if part is Part.DELTA:
            rows, flags = self._delta(relation), [WEIGHT]
        elif part is Part.BOTH:
            rows, flags = self._flagged(relation), [IN_NEW, IN_OLD]
        else:
            rows, flags = self._slice(relation), []
        assert rows is not None
        there = set(rows.column_names)
        columns = [c for c in self.inputs[relation].columns if c.name in there]
        self.bound.bind(name, rows, [*columns, *(Column(f, "int") for f in flags)])

    def _flagged(self, relation: str) -> pa.Table:
        """The rows of both states: those of the slice that did not change, and the delta's."""
        # The slice was read in one state; the delta's rows of that state are flagged by themselves, so they leave it.
        unchanged = self._slice(relation, unchanged=True)
        # Rows that are alike in the slice's columns are wanted by the same keys: all of them are in it, or none.
        inserted, deleted = (self._moved(relation, state, unchanged.schema) for state in (State.NEW, State.OLD))
        parts = [(unchanged, 1, 1), (inserted, 1, 0), (deleted, 0, 1)]
        return pa.concat_tables([_constant(_constant(t, IN_NEW, n), IN_OLD, o) for t, n, o in parts])


def _constant(rows: pa.Table, name: str, value: int) -> pa.Table:
    return rows.append_column(name, pa.repeat(pa.scalar(value, pa.int32()), rows.num_rows))

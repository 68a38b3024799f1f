"""Datasets whose rows go through this process, since they are few: read by delta-rs, handed to Spark as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from ivm.errors import LargeReadError
from ivm.feed.datasets import Datasets, Part
from ivm.feed.found import FoundRows, any_of, parts
from ivm.feed.input import Input
from ivm.lake import native, parquet
from ivm.lake.keyed import KeyedReader
from ivm.lake.keys import distinct, ends, filtered, wide
from ivm.lake.shapes import plain
from ivm.names import WEIGHT
from ivm.plan.nodes import IN_NEW, IN_OLD, Column
from ivm.rewrite.delta_join import State
from ivm.rewrite.slices import DELTA, Match, Provider, Requests
from ivm.table.protocol import Wanted
from ivm.table.slices import slice_sql
from ivm.table.spark import picked_by
from ivm.zset.weighted import without


class ArrowDatasets(Datasets):
    """Slices are Arrow tables.

    Loading raises LargeReadError for one of more rows than the profile's `slice_rows`.
    """

    def _begin(self) -> None:
        self._slices: dict[str, pa.Table] = {}
        self._keys_of: dict[Match, pa.Table] = {}
        self._matched: dict[str, list[Wanted]] = {}
        self._found = FoundRows(0)

    def sharing(self, found: FoundRows) -> ArrowDatasets:
        """These datasets, recalling what others of the epoch found, and letting them recall what these find."""
        self._found = found
        return self

    def load(self, requests: Requests) -> None:
        super().load(requests)
        for relation, wanted in self._matched.items():
            source = self.inputs[relation]
            self._found.keep(source.path, source.version, self._slices[relation], wanted)

    @classmethod
    def beside(cls, other: Datasets, tag: str, inputs: Mapping[str, Input]) -> ArrowDatasets:
        """Datasets of more inputs than another's, with names of their own."""
        return cls(other._spark, other._scratch, f"{other.tag}_{tag}", inputs, other._limits, other.bound)

    def read_rows(self, relation: str, rows: pa.Table) -> pa.Table:
        """The rows of a native table that equal one of `rows` in all columns that these have, NULLs equal."""
        source = self.inputs[relation]
        keys = wide(rows).rename_columns([f"k{i}" for i in range(rows.num_columns)])
        folder = self._scratch / f"{self.tag}_{relation}_rows"
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
            self._slices[relation] = found
            self._whole.add(relation)
            self._sliced[relation] = found.num_rows

    def _load_round(self, number: int, asked: Mapping[str, set[Match]]) -> None:
        """The keys of all relations first, from the rows of earlier rounds; then the relations are read."""
        with ThreadPoolExecutor(self._limits.threads) as pool:
            wanted = dict(zip(asked, pool.map(self._wanted, asked.values()), strict=True))
            found = list(pool.map(lambda r: self._read_round(r, number, wanted[r]), wanted))
        for (relation, mine), rows in zip(wanted.items(), found, strict=True):
            before = self._slices.get(relation, self.inputs[relation].schema.empty_table())
            self._matched.setdefault(relation, []).extend(mine)
            self._slices[relation] = pa.concat_tables([before, rows])
            self._sliced[relation] = self._slices[relation].num_rows

    def _wanted(self, matches: set[Match]) -> list[Wanted]:
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

    def _read_round(self, relation: str, number: int, wanted: Sequence[Wanted]) -> pa.Table:
        """The rows that are wanted in a round, but those that an earlier one found: recalled, or read."""
        source, earlier = self.inputs[relation], self._matched.get(relation, [])
        most = self._limits.slice_rows - self._sliced.get(relation, 0)
        fresh = [new for w in wanted if (new := parts(w, earlier)[1]) is not None]
        columns = [c.name for c in source.columns]
        recalled, known, left = self._found.recall(source.path, source.version, columns, fresh)
        rows = recalled.cast(source.schema) if recalled is not None else source.schema.empty_table()
        if left:
            read = self._read(source, number, columns, left, most).cast(source.schema)
            if known:
                read = read.filter(pc.invert(any_of(known, read)))
            rows = pa.concat_tables([rows, read])
        if rows.num_rows > most:
            raise LargeReadError(f"more than {most:,} rows")
        return rows.filter(pc.invert(any_of(earlier, rows))) if earlier else rows

    def _read(
        self, source: Input, number: int, columns: Sequence[str], wanted: Sequence[Wanted], most: int
    ) -> pa.Table:
        """The rows of the relation's table that any of `wanted` means, each once."""
        folder = self._scratch / f"{self.tag}_{source.relation}_{number}"
        indexes = [source.index(w) for w in wanted]
        if all(indexes):
            rows = source.schema.empty_table()
            for i, (index, wanted_) in enumerate(zip(indexes, wanted, strict=True)):
                assert index is not None
                more = index.find(columns, wanted_, folder / str(i)).cast(source.schema)
                for earlier in wanted[:i]:
                    more = more.filter(pc.invert(earlier.of(more)))
                rows = pa.concat_tables([rows, more])
            return rows
        if source.native:
            keys = [(w.columns, w.keys, w.between) for w in wanted]
            return self._reader(source.relation).find(columns, keys, folder, most=most)
        return self._slice_by_spark(source, number, columns, wanted, most)

    def _slice_by_spark(
        self, source: Input, number: int, columns: Sequence[str], wanted: Sequence[Wanted], most: int
    ) -> pa.Table:
        spark = self._spark()
        picked = picked_by(spark, wanted, f"__ivm_{self.tag}_{source.relation}_{number}_keys")
        sql = slice_sql(self._table(source.relation), columns, picked, [])
        path = self._scratch / f"{self.tag}_{source.relation}_{number}.parquet"
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
            if provider.level != DELTA and provider.relation in self._slices:
                parts.append(self._provided(self._slices[provider.relation], provider, self._rounds.through(match)))
            keys = pa.concat_tables(parts) if parts else pa.table({})
            if match.between:
                self._keys_of[match] = ends(keys)
            else:
                self._keys_of[match] = distinct(keys if match.nulls else keys.drop_null()) if parts else keys
        return self._keys_of[match]

    def _provided(self, rows: pa.Table, provider: Provider, through: Sequence[Match] | None) -> pa.Table:
        """The provider's columns, called k0, k1, ..., of the rows that meet its filters and that `through` means."""
        rows = filtered(rows, provider.filters)
        if through is not None and rows.num_rows:
            keys = {match: self._keys(match) for match in through}
            wanted = [Wanted(m.columns, k, m.between) for m, k in keys.items() if k.num_rows]
            rows = rows.filter(any_of(wanted, rows)) if wanted else rows.slice(0, 0)
        return wide(rows.select(list(provider.columns)).rename_columns([f"k{i}" for i in range(len(provider.columns))]))

    def _register(self, name: str, relation: str, part: Part) -> None:
        if part is Part.DELTA:
            rows, flags = self._delta(relation), [WEIGHT]
        elif part is Part.BOTH:
            rows, flags = self._flagged(relation), [IN_NEW, IN_OLD]
        else:
            rows, flags = self._slices[relation], []
        columns = [*self.inputs[relation].columns, *(Column(f, "int") for f in flags)]
        assert rows is not None
        self.bound.bind(name, rows, columns)

    def _flagged(self, relation: str) -> pa.Table:
        """The rows of both states: those of the slice that did not change, and the delta's."""
        source, delta = self.inputs[relation], self._delta(relation)
        assert delta is not None
        rows = self._slices.get(relation, source.schema.empty_table())
        names = source.schema.names
        # The slice was read in one state; the delta's rows of that state are flagged below, so they leave it here.
        there = (
            delta.filter(pc.equal(delta[WEIGHT], 1 if source.base is State.NEW else -1))
            .select(names)
            .cast(source.schema)
        )
        unchanged = without(rows, there)
        inserted, deleted = (
            delta.filter(pc.equal(delta[WEIGHT], w)).select(names).cast(source.schema) for w in (1, -1)
        )
        parts = [(unchanged, 1, 1), (inserted, 1, 0), (deleted, 0, 1)]
        return pa.concat_tables([_constant(_constant(t, IN_NEW, n), IN_OLD, o) for t, n, o in parts])


def _constant(rows: pa.Table, name: str, value: int) -> pa.Table:
    return rows.append_column(name, pa.repeat(pa.scalar(value, pa.int32()), rows.num_rows))

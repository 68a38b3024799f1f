"""Datasets whose rows stay with Spark: key sets, slices and both states are statements over staged Parquet.

Each is written out once, so that the next round's keys and all views read it; this process learns how many rows it has.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from ivm.engine.rows import StagedRows, stage
from ivm.feed.datasets import Datasets, Part
from ivm.feed.key_sets import key_set, provided
from ivm.feed.states import flagged
from ivm.lake.keys import ends
from ivm.names import WEIGHT, ident
from ivm.plan.nodes import IN_NEW, IN_OLD, Column
from ivm.rewrite.slices import DELTA, Match
from ivm.sql.render import columns_sql
from ivm.table.slices import Picked, slice_sql


class StagedDatasets(Datasets):
    """Slices are staged, a part a round. Nothing is loaded whole: Spark reads the tables themselves."""

    def _begin(self) -> None:
        self._slices: dict[str, list[StagedRows]] = {}
        self._picked_by: dict[Match, Picked | None] = {}
        self._matched: dict[str, list[Picked]] = {}

    def _load_whole(self, relation: str) -> None:
        """Nothing: a table is a name already."""

    def _load_round(self, number: int, asked: Mapping[str, set[Match]]) -> None:
        for relation, matches in asked.items():
            self._load_slice(relation, number, matches)

    def _load_slice(self, relation: str, number: int, matches: set[Match]) -> None:
        source = self.inputs[relation]
        picked = [p for m in sorted(matches, key=repr) if (p := self._picked(m)) is not None]
        self._sliced.setdefault(relation, 0)
        if not picked:
            return
        earlier = self._matched.setdefault(relation, [])
        sql = slice_sql(self._table(relation), [c.name for c in source.columns], picked, earlier)
        found = self._staged(f"slice_{number}", relation, sql, source.columns)
        earlier.extend(picked)
        self._slices.setdefault(relation, []).append(found)
        self._sliced[relation] += found.num_rows

    def _picked(self, match: Match) -> Picked | None:
        """How a match picks rows; None where there are no keys."""
        if match not in self._picked_by:
            self._picked_by[match] = self._ends(match) if match.between else self._keys(match)
        return self._picked_by[match]

    def _ends(self, match: Match) -> Picked:
        """A range comes from one row that moved, so its delta is small (see `ivm.rewrite.slices`)."""
        delta = self.inputs[match.provider.relation].delta
        assert isinstance(delta, pa.Table), f"the delta of {match.provider.relation} gives no range"
        low, high = ends(delta.select(list(match.provider.columns))).column(0).to_pylist()
        return Picked(match.columns, ends=(low, high))

    def _keys(self, match: Match) -> Picked | None:
        """Distinct values of the provider's columns, old and new state both; NULLs only where they match."""
        provider = match.provider
        via = self._picked(provider.via) if provider.via is not None else None
        if provider.via is not None and via is None:
            return None
        delta, through = [via] if via is not None else None, self._through(match)
        rows = [(self._name(provider.relation, Part.DELTA), delta)] if self.changed(provider.relation) else []
        if provider.level != DELTA and self._slices.get(provider.relation) and through != []:
            rows.append((f"({self._slice(provider.relation)})", through))
        if not rows:
            return None
        types = {c.name: c.type for c in self.inputs[provider.relation].columns}
        parts = [provided(r, provider.columns, types, provider.filters, of) for r, of in rows]
        sql = key_set(parts, len(provider.columns), match.nulls)
        found = self._staged(f"keys_{len(self._picked_by)}", provider.relation, sql)
        return Picked(match.columns, found.ref, match.nulls) if found.num_rows else None

    def _through(self, match: Match) -> list[Picked] | None:
        """How those rows of a slice are picked that provide a match's keys; None where all do."""
        through = self._rounds.through(match)
        return None if through is None else [p for m in through if (p := self._picked(m)) is not None]

    def _slice(self, relation: str) -> str:
        """A relation's slice as a SELECT."""
        columns = self.inputs[relation].columns
        listed = columns_sql([c.name for c in columns])
        if not self._slices.get(relation):
            return f"SELECT {', '.join(f'CAST(NULL AS {c.type}) AS {ident(c.name)}' for c in columns)} WHERE FALSE"
        return "\nUNION ALL\n".join(f"SELECT {listed} FROM {part.ref}" for part in self._slices[relation])

    def _staged(self, what: str, relation: str, sql: str, columns: tuple[Column, ...] | None = None) -> StagedRows:
        self.bound.ready(sql)
        return stage(self._spark(), sql, self._place_of(what, relation), columns)

    def _register(self, name: str, relation: str, part: Part) -> None:
        source = self.inputs[relation]
        if part is Part.ROWS:
            sql = self._slice(relation)
        elif part is Part.DELTA:
            if isinstance(source.delta, pa.Table):
                self.bound.bind(name, source.delta, [*source.columns, Column(WEIGHT, "int")])
                self.bound.ready(ident(name))
                return
            assert source.delta is not None, f"{relation} did not change"
            sql = f"SELECT {columns_sql([*(c.name for c in source.columns), WEIGHT])} FROM {source.delta.ref}"
        else:
            sql = f"SELECT * FROM {self._both(relation).ref}"
        self.bound.make(name, lambda: self._spark().sql(sql).createOrReplaceTempView(name))
        self.bound.ready(ident(name))

    def _both(self, relation: str) -> StagedRows:
        source = self.inputs[relation]
        rows = f"({self._slice(relation)})" if self._slices.get(relation) else None
        sql = flagged(source.columns, rows, source.base, self._name(relation, Part.DELTA))
        flags = (Column(IN_NEW, "int"), Column(IN_OLD, "int"))
        return stage(self._spark(), sql, self._place_of("both", relation), (*source.columns, *flags))

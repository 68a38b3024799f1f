"""DuckDB as the engine of pure tests: analyses views, and runs our statements on whole old and new tables."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import duckdb
import sqlglot
from sqlglot import exp

from ivm.names import WEIGHT, ident
from ivm.plan.nodes import IN_NEW, IN_OLD, Column, Leaf, Relation
from ivm.portable.listed import SETUP
from ivm.portable.statement import NotPortableError, written
from ivm.portable.statement import Relation as PortableRelation
from ivm.rewrite.delta_join import State

TYPES = {
    "INTEGER": "int",
    "BIGINT": "bigint",
    "HUGEINT": "bigint",
    "VARCHAR": "string",
    "DOUBLE": "double",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}


def duck(sql: str) -> str:
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0].replace('AS "HUGEINT"', "")


class DuckAnalyzer:
    """Answers the compiler; DuckDB knows no sameSemantics, so statements count as equal."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()

    def schema(self, sql):
        result = self.connection.sql(duck(sql))
        return tuple(
            Column(n, TYPES.get(str(t), str(t).lower())) for n, t in zip(result.columns, result.types, strict=True)
        )

    def same(self, one, other):
        return True

    def alike(self, one, other):
        return True

    def scalar(self, expressions, from_sql):
        return None

    def chance(self, sql):
        return None

    def as_time(self, sql, text):
        return False

    def variables(self, sql):
        return ()

    def functions(self, names):
        return ()

    def aggregates(self, calls):
        return frozenset()

    def raises(self):
        return True


def numbers(rows: list[tuple]) -> Counter[tuple]:
    """Rows as a bag, whatever types of numbers they have."""
    return Counter(tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in rows)


class DuckLake:
    """Tables in two states, and the `Reads` that our statements need, over whole tables."""

    def __init__(self, relations: dict[str, Relation], telescoping: bool) -> None:
        self.connection = duckdb.connect()
        # DuckDB 2.0's statistics lose rows that an outer join pads where a table of the join is empty.
        self.connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        for statement in SETUP:
            self.connection.execute(statement)
        self.relations = relations
        self.telescoping = telescoping
        self.moved: set[str] = set()

    def load(self, name: str, old: list[tuple], new: list[tuple]) -> None:
        relation = self.relations[name]
        columns = ", ".join(f'"{c.name}" {c.type}' for c in relation.columns)
        for state, rows in (("old", old), ("new", new)):
            self.connection.execute(f"CREATE OR REPLACE TABLE {name}_{state} ({columns})")
            if rows:
                marks = ", ".join("?" for _ in relation.columns)
                self.connection.executemany(f"INSERT INTO {name}_{state} VALUES ({marks})", rows)
        self._changes(name)

    def load_unit(self, relation: Relation, old: str, new: str) -> None:
        """A unit's rows in both states, from its statements over what it reads."""
        self.relations[relation.name] = relation
        for state, sql in (("old", old), ("new", new)):
            self.connection.execute(f"CREATE OR REPLACE TABLE {relation.name}_{state} AS {duck(sql)}")
        self._changes(relation.name)

    def _changes(self, name: str) -> None:
        relation = self.relations[name]
        names = ", ".join(f'"{c.name}"' for c in relation.columns)
        delta = (
            f'SELECT {names}, 1 AS "{WEIGHT}" FROM (SELECT * FROM {name}_new EXCEPT ALL SELECT * FROM {name}_old) '
            f"UNION ALL SELECT {names}, -1 FROM (SELECT * FROM {name}_old EXCEPT ALL SELECT * FROM {name}_new)"
        )
        self.connection.execute(f"CREATE OR REPLACE TABLE {name}_delta AS {delta}")
        self.connection.execute(
            f'CREATE OR REPLACE TABLE {name}_both AS SELECT {names}, 1 AS "{IN_NEW}", 1 AS "{IN_OLD}" '
            f"FROM (SELECT * FROM {name}_new INTERSECT ALL SELECT * FROM {name}_old) UNION ALL SELECT {names}, "
            f'CASE WHEN "{WEIGHT}" > 0 THEN 1 ELSE 0 END, CASE WHEN "{WEIGHT}" > 0 THEN 0 ELSE 1 END FROM {name}_delta'
        )
        (count,) = self.connection.execute(f"SELECT count(*) FROM {name}_delta").fetchone()
        self.moved.discard(name)
        if count:
            self.moved.add(name)

    def run(self, sql: str) -> list[tuple]:
        """A statement's rows; the same come out where it is written as the embedded engine runs it."""
        rows = self.connection.execute(duck(sql)).fetchall()
        try:
            portable = written(sql, self._relation)
        except NotPortableError:
            return rows
        found = self.connection.execute(portable.sql).fetchall()
        assert numbers(found) == numbers(rows), (sql, portable.sql)
        return rows

    def _relation(self, node: exp.Table) -> PortableRelation:
        described = self.connection.execute(f'DESCRIBE "{node.name}"').fetchall()
        return PortableRelation(node.name, [Column(n, TYPES.get(t, t.lower())) for n, t, *_ in described])

    # -- Reads ------------------------------------------------------------------------------------

    def changed(self, relation: str) -> bool:
        return relation in self.moved

    def signed(self, leaf: Leaf, level: int):
        if self.telescoping:
            return None
        return ident(f"{leaf.relation}_{'both' if self.changed(leaf.relation) else 'new'}")

    def delta(self, leaf: Leaf) -> str:
        return ident(f"{leaf.relation}_delta")

    def state(self, leaf: Leaf, level: int, state: State) -> tuple[str, bool]:
        return ident(f"{leaf.relation}_{'old' if state is State.OLD else 'new'}"), False

    def bag(self, leaf: Leaf, level: int, state: State) -> str:
        return self.state(leaf, level, state)[0]


__all__ = ["DuckAnalyzer", "DuckLake", "duck"]

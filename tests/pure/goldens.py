"""Golden files: for each pass of the compiler, what it makes of examples, both sides of which can be run.

    -- what the example shows
    -- same as: SQL that is run in place of the input, where no engine can run that
    -- on Spark                   where DuckDB lacks what the example is about: only its text is compared
    -- columns: name type, ...    what the engine says there of the statement that the pass asks about
    input;
    expected;

What is expected of a pass over a text or a tree is SQL, of normal form a WITH entry for each unit, of a pass over
programs the program's definition. `python -m tests.pure.goldens` writes what the passes make now: look at the
difference.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ivm.compile.given import Asked, Given
from ivm.compile.passes import PASSES, Pass, Stage, compile_sql
from ivm.names import ident
from ivm.plan.nodes import RANK, Column, Program, Relation, Unit
from ivm.rewrite.identity import definition_text
from ivm.sql.analyzer import Analyzer
from ivm.sql.dialect import IvmSpark
from ivm.sql.render import columns_sql, core_sql, unit_sql
from ivm.sql.text import query_tree
from tests.pure.duck import DuckAnalyzer

FOLDER = Path(__file__).parent / "golden"
_INT = ("r a b", "s b c", "t c d", "e src dst w")
RELATIONS = {
    name: Relation(name, "source", tuple(Column(c, "int") for c in columns))
    for name, *columns in (line.split() for line in _INT)
}
RELATIONS["n"] = Relation("n", "source", (Column("k", "int"), Column("st", "struct<u:int,v:int>")))
RELATIONS["d"] = Relation("d", "source", (Column("k", "int"), Column("x", "int"), Column("day", "date")), (), "day")
RELATIONS["o"] = Relation("o", "source", (Column("at", "timestamp"), Column("x", "int"), Column("l", "array<int>")))


@dataclass(frozen=True)
class Example:
    title: str
    sql: str
    expected: str
    same_as: str = ""
    on_spark: bool = False
    columns: str = ""

    @property
    def runnable(self) -> str:
        """What has the input's rows."""
        return self.same_as or self.sql

    def __str__(self) -> str:
        notes = [f"-- same as: {self.same_as}"] * bool(self.same_as) + ["-- on Spark"] * self.on_spark
        notes += [f"-- columns: {self.columns}"] * bool(self.columns)
        return "\n".join([f"-- {self.title}", *notes, f"{self.sql};", f"{self.expected};"])


def examples(name: str) -> list[Example]:
    """Those of a pass."""
    return list(_parsed((FOLDER / f"{name}.sql").read_text()))


def _parsed(text: str) -> Iterator[Example]:
    for entry in re.split(r"\n\n+(?=-- )", text.strip()):
        lines = entry.split("\n")
        notes = [line[3:] for line in lines if line.startswith("-- ")]
        sql, expected, rest = re.split(r";(?:\n|\Z)", "\n".join(lines[len(notes) :]), maxsplit=2)
        assert not rest, entry
        given = dict(n.split(": ", 1) for n in notes[1:] if ": " in n)
        yield Example(notes[0], sql, expected, given.get("same as", ""), "on Spark" in notes, given.get("columns", ""))


class Told(DuckAnalyzer):
    """Says of every statement what an example's note says."""

    def __init__(self, columns: str) -> None:
        self.columns = tuple(Column(*c.split(" ", 1)) for c in columns.split(", "))

    def schema(self, sql):
        return self.columns


def made(each: Pass, example: Example, analyzer: Analyzer | None = None) -> str:
    """What a pass makes of an example: of its text or tree as written, of its program as earlier passes made it."""
    analyzer = analyzer or (Told(example.columns) if example.columns else DuckAnalyzer())
    if each.stage is Stage.TEXT:
        return str(each.run(example.sql, Asked("v", RELATIONS, analyzer)))
    if each.stage is Stage.TREE:
        tree = query_tree(example.sql)
        known = Given("v", RELATIONS, analyzer, example.sql, tree, (), (), (), None)
        return str(each.run(tree, known).sql(dialect=IvmSpark))
    after = program(each, example.sql, analyzer)
    return script(after) if each.stage is Stage.UNITS else definition_text(after, example.sql, {})


def program(each: Pass, sql: str, analyzer: Analyzer | None = None) -> Program:
    """The program after a pass that makes or changes one. Raises AssertionError where it is refused."""
    after = compile_sql("v", sql, RELATIONS, analyzer or DuckAnalyzer(), each.name)
    assert after.units, after.refusals
    return after


def script(made: Program) -> str:
    """The rows of a program as one statement: a WITH entry for each unit inside."""
    entries = [e for unit in made.units[:-1] for e in _entries(unit)]
    word = "WITH RECURSIVE" if any(u.fixpoint for u in made.units) else "WITH"
    body = unit_sql(made.units[-1], lambda leaf: ident(leaf.relation))
    return f"{word} {', '.join(entries)}\n{body}" if entries else body


def _entries(unit: Unit) -> Iterator[str]:
    if not unit.fixpoint:
        yield f"{unit.name} AS (\n{unit_sql(unit, lambda leaf: ident(leaf.relation))}\n)"
        return
    every = f"{unit.name}_all" if unit.fixpoint == "distinct" else unit.name
    base, step = [], []
    for branch in unit.core.branches:
        own = any(leaf.relation == unit.name for leaf in branch.leaves)
        core = type(unit.core)((branch,))
        sql = core_sql(core, lambda leaf: ident(every if leaf.relation == unit.name else leaf.relation))
        (step if own else base).append(sql)
    union = "UNION" if unit.fixpoint == "distinct" else "UNION ALL"
    either = [" UNION ALL\n".join(part) for part in (base, step)]
    columns = [c.name for c in unit.columns]
    yield f"{every}({columns_sql(columns)}) AS (\n({either[0]})\n{union}\n({either[1]})\n)"
    if unit.fixpoint == "distinct":
        least = [unit.least] * bool(unit.least) + [RANK]
        keys = [c for c in columns if c not in least]
        minima = ", ".join(f"MIN({ident(c)}) AS {ident(c)}" for c in columns if c in least)
        yield f"{unit.name} AS (\nSELECT {columns_sql(keys)}, {minima} FROM {every} GROUP BY {columns_sql(keys)}\n)"


def tables(seed: int) -> dict[str, list[str]]:
    """Rows of each relation as SQL literals: small numbers, NULLs, duplicates; edges lead up: recursions end."""
    draw = random.Random(seed)

    def number() -> str:
        return "NULL" if draw.random() < 0.15 else str(draw.randrange(4))

    found = {name: [f"({number()}, {number()})" for _ in range(draw.randrange(7))] for name in "rst"}
    pairs = [sorted(draw.sample(range(5), 2)) for _ in range(draw.randrange(6))]
    found["e"] = [f"({a}, {b}, {draw.randrange(3)})" for a, b in pairs]
    found["n"] = [f"({number()}, named_struct('u', {number()}, 'v', {number()}))" for _ in range(4)]
    found["d"] = [f"({number()}, {number()}, DATE '2024-01-0{draw.randrange(1, 5)}')" for _ in range(5)]
    lists = [f"array({', '.join(number() for _ in range(draw.randrange(1, 3)))})" for _ in range(4)]
    found["o"] = [f"(TIMESTAMP '2024-01-01 0{draw.randrange(3)}:30:00', {number()}, {part})" for part in lists]
    return found


def table_sql(name: str, rows: list[str]) -> str:
    """A relation's rows as a query of its types."""
    relation = RELATIONS[name]
    typed = ", ".join(f"CAST({c.name} AS {c.type}) AS {c.name}" for c in relation.columns)
    nulls = f"({', '.join('NULL' for _ in relation.columns)})"
    listed = ", ".join(rows or [nulls])
    alias = f"x({', '.join(c.name for c in relation.columns)})"
    return f"SELECT {typed} FROM (VALUES {listed}) AS {alias}" + ("" if rows else " WHERE 1 = 0")


def main() -> None:
    for each in PASSES:
        file = FOLDER / f"{each.name}.sql"
        if file.exists():
            kept = [replace(e, expected=made(each, e)) for e in examples(each.name)]
            file.write_text("\n\n".join(map(str, kept)) + "\n")


if __name__ == "__main__":
    main()

"""Cases for the list of what is portable: of each entry, expressions over generated rows, by both engines.

    rows(n, seed)           a table with several columns of each type: edges, NULLs, and random values
    cases()                 of each entry, Spark's expressions over these columns, for types of each family
    compare(spark, ...)     DuckDB's value = Spark's value in each row in which DuckDB doesn't raise, and the types are
                            Spark's

A row in which DuckDB raises is one that Spark would be asked for; an entry of which most rows raise shows nothing, so
that it fails.
"""

from __future__ import annotations

import datetime
import itertools
import math
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException

from ivm.engine.duck import Database
from ivm.lake.shapes import plain
from ivm.plan.nodes import Column
from ivm.portable.casts import CASTS
from ivm.portable.entry import Entry
from ivm.portable.listed import AGGREGATES, SCALARS, SETUP, WINDOWS
from ivm.portable.statement import NotPortableError, Relation, written
from ivm.portable.types import FAMILIES, INTEGERS, type_of

#: Decimals with few digits and with all of them, on either side of the point.
DECIMALS = [(3, 0), (5, 2), (15, 2), (18, 9), (20, 0), (27, 10), (32, 4), (38, 0), (38, 6), (38, 18), (38, 37)]
TYPES = (
    "boolean", *INTEGERS, "double", "string", "date", "timestamp", "timestamp_ntz",
    *(f"decimal({p},{s})" for p, s in DECIMALS),
)  # fmt: skip
#: Columns of each type.
WIDTH = 3
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_EPOCH, _DAY = datetime.date(1970, 1, 1), 86_400_000_000
_DAYS = {
    -719162, -719163 + 400, -141428, -141427, -1, 0, 1, 18321, 19782, 11016, 2932896, 2932895, 2932897, 3000000
}  # fmt: skip
#: Beyond the planes of 16 bits, decomposed, empty, blank, and what patterns and quotes are made of.
_TEXTS = [
    "", " ", "a", "A", "ab", "abc", "a ", " a", "  a  ", "%", "_", "a%b", "a_b", "it's", '"', "é", "e\u0301", "ß", "İ",
    "😀", "a😀b", "\U0010ffff", "\ufffd", "a\nb", "\t", "\u00a0a", "Brand#12", "special requests", "z" * 70, "1", "-1",
]  # fmt: skip


def column(type_: str, i: int) -> str:
    return type_.replace("(", "_").replace(",", "_").replace(")", "") + f"_{i}"


def columns() -> list[Column]:
    return [Column("k", "bigint"), Column("g", "int"), *(Column(column(t, i), t) for t in TYPES for i in range(WIDTH))]


def _integer(r: random.Random, bits: int) -> int:
    top = 2 ** (bits - 1)
    kind = r.random()
    if kind < 0.2:
        return r.choice([-top, -top + 1, top - 1, -1, 0, 1, 2, -2, 10])
    size = r.randint(1, bits - 1)
    return r.randint(-(2**size) + 1, 2**size - 1) if kind < 0.7 else r.randint(-3, 3)


def _decimal(r: random.Random, digits: int, scale: int) -> Decimal:
    kind = r.random()
    if kind < 0.15:
        whole = r.choice([0, 1, -1, 10**digits - 1, 1 - 10**digits, 5 * 10 ** max(scale - 1, 0) % 10**digits])
    elif kind < 0.3:
        whole = r.randint(-3, 3) * 10**scale if digits > scale else r.randint(-3, 3)
    else:
        size = r.randint(1, digits)
        whole = r.choice([-1, 1]) * r.randint(0, 10**size - 1)
    sign, text = ("-" if whole < 0 else ""), str(abs(whole)).rjust(scale + 1, "0")
    text = f"{sign}{text[: len(text) - scale]}.{text[len(text) - scale :]}" if scale else f"{sign}{text}"
    return Decimal(text)


def _double(r: random.Random) -> float:
    kind = r.random()
    if kind < 0.3:
        return r.choice(
            [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5, 5e-324, 1.7976931348623157e308, 0.1]
        )
    if kind < 0.6:
        return float(r.randint(-5, 5))
    if kind < 0.8:
        return r.uniform(-1e6, 1e6)
    return float(struct.unpack("<d", struct.pack("<Q", r.getrandbits(64)))[0])


def _value(r: random.Random, type_: str) -> Any:
    if r.random() < 0.08:
        return None
    if type_ in _BITS:
        return _integer(r, _BITS[type_])
    if type_.startswith("decimal"):
        found = type_of(type_)
        assert found is not None
        return _decimal(r, found.digits, found.scale)
    if type_ == "double":
        return _double(r)
    if type_ == "boolean":
        return r.random() < 0.5
    if type_ == "string":
        return r.choice(_TEXTS) if r.random() < 0.8 else "".join(r.choices("ab😀é %_A", k=r.randint(0, 6)))
    days = (
        r.choice(sorted(_DAYS))
        if r.random() < 0.4
        else r.randint(-700_000, 3_500_000)
        if r.random() < 0.7
        else r.randint(18_000, 18_040)
    )
    if type_ == "date":
        return days
    return days * _DAY + r.choice([0, 0, 1, _DAY - 1, r.randint(0, _DAY - 1)])


_ARROW = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "double": pa.float64(), "string": pa.string(), "date": pa.date32(), "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


def _array(type_: str, values: Sequence[Any]) -> pa.Array:
    if type_.startswith("decimal"):
        found = type_of(type_)
        assert found is not None
        return pa.array(values, pa.decimal128(found.digits, found.scale))
    if type_ == "date":
        return pa.array(values, pa.int32()).cast(pa.date32())
    if type_.startswith("timestamp"):
        return pa.array(values, pa.int64()).cast(_ARROW[type_])
    return pa.array(values, _ARROW[type_])


def rows(n: int, seed: int = 7) -> pa.Table:
    """So many rows, in groups of about five (`g`); `k` tells them apart."""
    r = random.Random(seed)
    made = {"k": pa.array(range(n), pa.int64()), "g": pa.array([r.randint(0, n // 5) for _ in range(n)], pa.int32())}
    for c in columns()[2:]:
        made[c.name] = _array(c.type, [_value(r, c.type) for _ in range(n)])
    return pa.table(made)


# -- cases ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An expression over the rows, of an entry; `what` groups it (scalar, aggregate, window)."""

    entry: str
    sql: str
    what: str = "scalar"


#: Literals where an entry asks for one.
_LITERALS: Mapping[str, Sequence[str]] = {
    "[digits]": ["0", "1", "2", "5"],
    "[pattern]": [
        "'a%'",
        "'%a'",
        "'%a%b%'",
        "'_'",
        "'a_b'",
        "''",
        "'%'",
        "'%special%requests%'",
        "'😀%'",
        "'a'",
        "'%_%'",
    ],
    "[place]": ["1", "2", "7"],
    "[count]": ["0", "1", "3", "100"],
    "[text]": ["'a'", "'ab'", "'é'", "' '"],
    "[days]": ["1", "90", "365", "40000"],
    "[months]": ["1", "3", "12", "13", "2000"],
}


def _of_family(family: str) -> list[str]:
    return [t for t in TYPES if t.split("(")[0] in FAMILIES[family]]


def _pairs(family: str) -> Iterator[tuple[str, str]]:
    """Two columns of a family: of one type, and of types that differ."""
    mine = _of_family(family)
    for a, b in itertools.product(mine, mine):
        if a.startswith("timestamp") and a != b:
            continue
        yield column(a, 0), column(b, 1)


def _arguments(entry: Entry) -> Iterator[tuple[str, ...]]:
    takes = entry.takes
    if not takes:
        yield ()
        return
    families = [t for t in takes if not t.startswith("[")]
    literals = [_LITERALS[t] for t in takes if t.startswith("[")]
    if families == ["double's text"] * len(families):
        texts = [f"CAST({column('double', i)} AS string)" for i in range(len(families))]
        yield tuple(texts)
        return
    if entry.call == "case":
        if takes[1] == "double's text":
            yield column("boolean", 0), "CAST(double_0 AS string)", "CAST(double_1 AS string)"
        else:
            yield from ((column("boolean", 0), a, b) for a, b in _pairs(takes[1]))
        return
    if len(families) == 1:
        for type_, chosen in itertools.product(_of_family(families[0]), itertools.product(*literals)):
            yield column(type_, 0), *chosen
        return
    if families[0] == families[1]:
        found: Iterator[tuple[str, ...]] = _pairs(families[0])
    else:
        found = itertools.product(*([column(t, i) for t in _of_family(f)] for i, f in enumerate(families[:2])))
    for pair in found:
        yield (*pair, *pair[1:] * (len(takes) - 2))
    if "decimal" in families:  # beside whole numbers, and whole literals, which are as wide as they are
        for type_, other in itertools.product(_of_family("decimal"), [column("int", 1), "1", "-7", "100", "0.05"]):
            yield (column(type_, 0), *(other,) * (len(takes) - 1))
            yield (*(other,) * (len(takes) - 1), column(type_, 0))
    if "double" in families:
        yield (column("double", 0), *(column("int", 1),) * (len(takes) - 1))
    if families[0] == "date" and entry.call in ("=", "<", "<=", ">", ">="):
        yield column("date", 0), "'2020-02-29'"


def cases() -> list[Case]:
    """Of each entry, expressions over the columns of `rows`; those that aren't portable in these types are left out."""
    found: list[Case] = []
    for what, entries in (("scalar", SCALARS), ("aggregate", AGGREGATES), ("window", WINDOWS)):
        for entry in entries:
            for args in _arguments(entry):
                sql = entry.spark.format(*args)
                if (
                    what == "aggregate"
                    and entry.call == "sum"
                    and not args[0].startswith(("tinyint", "smallint", "int_"))
                ):
                    # Values whose sum their type can hold.
                    sql = entry.spark.format(f"CASE WHEN {args[0]} BETWEEN -1000000 AND 1000000 THEN {args[0]} END")
                # A double's text is never shown: it is cast back.
                hidden = entry.call == "case" and entry.takes[-1] == "double's text"
                found.append(Case(entry.name, f"CAST({sql} AS double)" if hidden else sql, what))
    for cast in CASTS:
        sources = ["CAST(double_0 AS string)"] if cast.source == "double's text" else []
        sources += [column(t, 0) for t in TYPES if t.split("(")[0] in FAMILIES.get(cast.source, ())]
        targets = ["string"] if cast.target == "double's text" else _of_family(cast.target)
        for source, target in itertools.product(sources, targets):
            shown = f"CAST({source} AS {target})"
            # What is never shown is shown to be told apart, and cast back.
            found.append(Case(cast.name, f"CAST({shown} AS double)" if cast.target == "double's text" else shown))
    over = "PARTITION BY g ORDER BY {0} {1}, k"
    for what, order in itertools.product(
        ("int_0", "decimal_5_2_0", "string_0", "date_0", "boolean_0"), ("", "DESC", "NULLS LAST", "DESC NULLS FIRST")
    ):
        found.append(Case("sort keys", f"row_number() OVER ({over.format(what, order)})", "window"))
    for frame in ("", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING"):
        for call in (
            "sum(smallint_0)",
            "count(string_0)",
            "min(date_0)",
            "max(string_0)",
            "avg(smallint_0)",
            "sum(decimal_5_2_0)",
        ):
            found.append(Case("frames", f"{call} OVER (PARTITION BY g ORDER BY k{frame})", "window"))
            found.append(Case("frames", f"{call} OVER (PARTITION BY g)", "window"))
    return list(dict.fromkeys(c for c in found if _portable(c)))


def sample(every: Sequence[Case], most: int, seed: int = 7) -> list[Case]:
    """At most so many cases of each entry."""
    r, by_entry = random.Random(seed), dict[str, list[Case]]()
    for case in every:
        by_entry.setdefault(case.entry, []).append(case)
    return [c for mine in by_entry.values() for c in (mine if len(mine) <= most else r.sample(mine, most))]


def statement(case: Case) -> str:
    """The case as a statement that gives `k` (or the group) and its value."""
    if case.what == "aggregate":
        return f"SELECT g AS k, {case.sql} AS x FROM cases GROUP BY g"
    call = case.sql
    if case.what == "window" and " OVER " not in call:
        call = f"{call} OVER (PARTITION BY g ORDER BY int_0, k)"
    return f"SELECT k, {call} AS x FROM cases"


def _known(table: Any) -> Relation:
    return Relation("cases", columns())


def _portable(case: Case) -> bool:
    try:
        written(statement(case), _known)
    except NotPortableError:
        return False
    return True


# -- both engines -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What came of a case: the type, the values by key (bytes of floats: -0.0 is not 0.0), the keys that raised."""

    type: str
    values: pa.Array
    raised: pa.Array


class Engine:
    """The embedded engine over the rows."""

    def __init__(self, table: pa.Table) -> None:
        self.database = Database()
        self.database.load("cases", lambda: table, columns())
        # Nothing may be computed before TRY looks at it.
        self.rowwise = duckdb.connect(config={"disabled_optimizers": "statistics_propagation,common_subexpressions"})
        for setup in SETUP:
            self.rowwise.execute(setup)
        self.rowwise.register("loaded", self.database.cursor().sql("SELECT * FROM cases").to_arrow_table())
        self.rowwise.execute("CREATE TABLE cases AS SELECT * FROM loaded")
        self.keys = {"scalar": table["k"], "window": table["k"], "aggregate": pc.unique(table["g"])}

    def of(self, case: Case) -> Found:
        """The case's values; row by row (or group by group) where the whole raises."""
        found = written(statement(case), _known)
        type_ = found.columns[1].type
        keys = self.keys[case.what]
        try:
            got = self.database.run(found)
        except duckdb.Error:
            return self._one_by_one(case, type_, found.sql)
        return Found(type_, got.sort_by("k")["x"].combine_chunks(), pa.array([False] * len(keys)))

    def _one_by_one(self, case: Case, type_: str, sql: str) -> Found:
        if case.what != "scalar":
            return Found(type_, pa.nulls(0), pa.array([True]))
        body = sql.removeprefix('SELECT "cases"."k" AS "k", ').split(' AS "x"\nFROM')[0]
        tried = f'SELECT "cases"."k" AS "k", TRY(row({body})) AS "r" FROM "cases" AS "cases"'
        found = self.rowwise.sql(
            f"SELECT k, r IS NULL AS raised, CASE WHEN r IS NOT NULL THEN r[1] END AS x FROM ({tried}) ORDER BY k"
        ).to_arrow_table()
        return Found(type_, found["x"].combine_chunks(), found["raised"].combine_chunks())


def comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values as they can be compared: of floats the bits, but one NaN."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_floating(values.type):
        one = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)
        return one.view(pa.int64())
    if pa.types.is_temporal(values.type):
        return values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    return values


#: Expressions in one statement of Spark's.
_AT_ONCE = 150


def compare(spark: Any, table: pa.Table, chosen: Sequence[Case], folder: Path) -> list[str]:
    """What differs, in words; nothing does where all is well."""
    engine = Engine(table)
    found = {c: engine.of(c) for c in chosen}
    shares: dict[str, list[float]] = {}
    for c, f in found.items():
        shares.setdefault(c.entry, []).append(pc.mean(f.raised.cast(pa.float64())).as_py())
    wrong = [f"{entry}: DuckDB raises in most rows" for entry, s in shares.items() if sum(s) > 0.7 * len(s)]
    shown = [c for c, f in found.items() if len(f.values)]
    masks = {
        f"raised_{i}": found[c].raised
        for i, c in enumerate(shown)
        if c.what == "scalar" and pc.any(found[c].raised).as_py()
    }
    path = folder / f"cases_{table.num_rows}.parquet"
    pq.write_table(pa.table({**{n: table[n] for n in table.column_names}, **masks}), path, version="2.6")
    spark.read.parquet(str(path)).createOrReplaceTempView("cases")
    for what in ("scalar", "window", "aggregate"):
        mine = [(i, c) for i, c in enumerate(shown) if c.what == what]
        for start in range(0, len(mine), _AT_ONCE):
            wrong += _compared(spark, mine[start : start + _AT_ONCE], what, masks, found)
    spark.catalog.dropTempView("cases")
    return wrong


def _compared(
    spark: Any, mine: Sequence[tuple[int, Case]], what: str, masks: Mapping[str, pa.Array], found: Mapping[Case, Found]
) -> list[str]:
    listed = []
    for i, c in mine:
        call = statement(c).removeprefix("SELECT g AS k, ").removeprefix("SELECT k, ").rsplit(" AS x FROM", 1)[0]
        listed.append(
            f"CASE WHEN NOT raised_{i} THEN {call} END AS x_{i}" if f"raised_{i}" in masks else f"{call} AS x_{i}"
        )
    key, group = ("g", " GROUP BY g") if what == "aggregate" else ("k", "")
    try:
        frame = spark.sql(f"SELECT {key} AS k, {', '.join(listed)} FROM cases{group}")
        types = {f.name: f.dataType.simpleString() for f in frame.schema.fields}
        told = plain(frame.toArrow()).sort_by("k")
    except PySparkException as error:  # which of them, by halves
        if len(mine) == 1:
            return [f"{mine[0][1].sql} [{mine[0][1].entry}]: Spark raises: {str(error).splitlines()[0][:200]}"]
        half = len(mine) // 2
        return _compared(spark, mine[:half], what, masks, found) + _compared(spark, mine[half:], what, masks, found)
    wrong = []
    for i, c in mine:
        mine_, theirs = found[c], told[f"x_{i}"].combine_chunks()
        if types[f"x_{i}"] != mine_.type:
            wrong.append(f"{c.sql} [{c.entry}]: Spark's type is {types[f'x_{i}']}, ours {mine_.type}")
            continue
        ours, its = comparable(mine_.values), comparable(theirs)
        same = pc.or_(pc.fill_null(pc.equal(ours, its), False), pc.and_(pc.is_null(ours), pc.is_null(its)))
        other = pc.indices_nonzero(pc.invert(pc.or_(same, mine_.raised)))
        if len(other):
            at = other[0].as_py()
            wrong.append(
                f"{c.sql} [{c.entry}]: {len(other)} rows, e.g. row {told['k'][at].as_py()}: "
                f"DuckDB {mine_.values[at].as_py()!r}, Spark {theirs[at].as_py()!r}"
            )
    return wrong

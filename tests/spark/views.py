"""Random typed views in Spark's own SQL, seeded: every construct to some depth, over the corpus' tables.

Where `tests.pure.views` composes integers for volume on DuckDB, this one brings types (decimals, strings, dates,
doubles, arrays, maps), generators, grouping sets, ROWS frames, QUALIFY, LATERAL and shared CTEs, at the price of
Spark's time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

Column = tuple[str, str]

BASES: dict[str, list[Column]] = {
    "a": [
        ("k", "int"),
        ("x", "int"),
        ("s", "string"),
        ("p", "decimal"),
        ("arr", "array"),
        ("f", "double"),
        ("d", "date"),
    ],
    "b": [("k", "int"), ("y", "int"), ("n", "string")],
    "c": [("y", "int"), ("z", "int"), ("p", "decimal")],
}
_SCALARS = {
    "int": (
        "{0} + 1",
        "coalesce({0}, 0)",
        "CASE WHEN {0} > 2 THEN {0} END",
        "abs({0} - 3)",
        "nullif({0}, 1)",
        "pmod({0}, 3)",
    ),
    "string": (
        "upper({0})",
        "concat({0}, '-')",
        "coalesce({0}, 'none')",
        "substr({0}, 1, 1)",
        "CASE {0} WHEN 'a' THEN 'one' ELSE {0} END",
    ),
    "decimal": ("{0} * 2", "round({0}, 1)", "coalesce({0}, 0.5)", "CAST({0} AS decimal(12,3))"),
    "double": ("{0} * 0.5D", "coalesce({0}, 0D)", "-{0}"),
    "date": ("date_add({0}, 1)", "date_trunc('MONTH', {0})", "{0}"),
    "array": ("array_distinct({0})", "filter({0}, e -> e > 1)", "transform({0}, e -> e * 2)"),
    "map": ("map_filter({0}, (k, v) -> v IS NOT NULL)",),
}
_FILTERS = {
    "int": (
        "{0} > 1",
        "{0} IN (1, 2, 4)",
        "{0} BETWEEN 1 AND 5",
        "{0} IS NOT NULL",
        "NOT ({0} = 2)",
        "{0} <=> NULL OR {0} < 4",
    ),
    "string": ("{0} LIKE 'a%'", "{0} > 'b'", "{0} NOT IN ('a', 'c')", "{0} IS NULL OR {0} <> 'd'", "length({0}) = 1"),
    "decimal": ("{0} >= 1.5", "{0} < 4", "{0} IS NOT NULL"),
    "double": ("{0} > 0.5D",),
    "date": ("{0} >= DATE '2024-01-02'", "{0} < DATE '2024-01-05'", "dayofmonth({0}) > 2"),
    "array": ("size({0}) > 0", "array_contains({0}, 1)", "exists({0}, e -> e > 2)"),
    "map": ("size({0}) > 0",),
}
_CALLS = {
    "int": (
        "sum({0})", "count({0})", "min({0})", "max({0})", "count(DISTINCT {0})", "avg({0})",
        "sum({0}) FILTER (WHERE {0} > 1)", "bit_xor({0})", "percentile({0}, 0.5)", "median({0})", "first({0})",
        "stddev({0})",
    ),
    "string": (
        "min({0})", "max({0})", "count(DISTINCT {0})", "array_join(sort_array(collect_set({0})), '')", "any_value({0})",
        "mode({0})",
    ),
    "decimal": ("sum({0})", "avg({0})", "max({0})", "count({0})"),
    "double": ("max({0})", "sum({0})", "avg({0})"),
    "date": ("min({0})", "max({0})"),
    "array": ("max({0})", "count({0})"),
    "map": ("count({0})",),
}  # fmt: skip
_CALL_TYPES = {
    "sum": None,
    "avg": "double",
    "count": "int",
    "percentile": "double",
    "median": "double",
    "stddev": "double",
    "array_join": "string",
}
_ORDERABLE = ("int", "string", "decimal", "double", "date")
_KEYS = ("int", "string", "date", "decimal")


@dataclass
class Query:
    sql: str
    columns: list[Column]


class Views:
    """Queries from a seed: equal seeds make equal queries."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def view(self, depth: int = 3) -> str:
        query = self.query(depth)
        named = ", ".join(f"q.{n} AS o{i}" for i, (n, _) in enumerate(query.columns))
        return f"SELECT {named} FROM ({query.sql}) q"

    def name(self, prefix: str = "c") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def pick(self, items):
        return self.random.choice(list(items))

    def typed(self, columns: list[Column], types) -> list[Column]:
        return [c for c in columns if c[1] in types]

    def query(self, depth: int) -> Query:
        if depth <= 0 or self.random.random() < 0.1:
            table = self.pick(BASES)
            return Query(f"SELECT * FROM {table}", list(BASES[table]))
        kinds = (
            self.projected, self.joined, self.joined, self.grouped, self.grouped, self.sets, self.windowed,
            self.combined, self.filtered_by_query, self.filtered_by_query, self.scalar, self.distinct, self.top,
            self.generated, self.shared, self.lateral, self.mapped,
        )  # fmt: skip
        made = None
        while made is None:
            made = self.pick(kinds)(depth)
        return made

    def aliased(self, alias: str, columns: list[Column], rename: bool = True) -> tuple[str, list[Column]]:
        """A select list that renames all columns, and what it gives."""
        chosen = columns if len(columns) <= 5 else self.random.sample(columns, 5)
        new = [(self.name() if rename else n, t) for n, t in chosen]
        return ", ".join(f"{alias}.{n} AS {m}" for (n, _), (m, _) in zip(chosen, new, strict=True)), new

    def condition(self, alias: str, columns: list[Column]) -> str:
        name, type_ = self.pick(columns)
        return self.pick(_FILTERS[type_]).format(f"{alias}.{name}")

    def equality(self, left: list[Column], right: list[Column], strict: bool = True) -> str | None:
        pairs = [(a, b) for a in left for b in right if a[1] == b[1] and a[1] in _KEYS]
        if not pairs:
            return None
        (a, _), (b, _) = self.pick(pairs)
        return f"l.{a} {self.random.choice(('=', '=', '=', '<=>'))} r.{b}"

    # -- constructs ------------------------------------------------------------------------------

    def projected(self, depth: int) -> Query:
        inner = self.query(depth - 1)
        outs, columns = [], []
        for n, t in inner.columns[:6]:
            new = self.name()
            outs.append(
                f"{self.pick(_SCALARS[t]).format('q.' + n) if self.random.random() < 0.5 else 'q.' + n} AS {new}"
            )
            columns.append((new, "timestamp" if "date_trunc" in outs[-1] else t))
        outs = [o for o, c in zip(outs, columns, strict=True) if c[1] != "timestamp"]
        columns = [c for c in columns if c[1] != "timestamp"]
        if not columns:
            return inner
        where = f" WHERE {self.condition('q', inner.columns)}" if self.random.random() < 0.6 else ""
        return Query(f"SELECT {', '.join(outs)} FROM ({inner.sql}) q{where}", columns)

    def joined(self, depth: int) -> Query | None:
        left, right = self.query(depth - 1), self.query(depth - self.pick((1, 2)))
        on = self.equality(left.columns, right.columns)
        if on is None:
            return None
        if self.random.random() < 0.35:
            on += f" AND {self.condition(*self.pick((('l', left.columns), ('r', right.columns))))}"
        if self.random.random() < 0.2:
            more = [(a, b) for a in left.columns for b in right.columns if a[1] == b[1] and a[1] in _ORDERABLE]
            (a, _), (b, _) = self.pick(more)
            on += f" AND l.{a} <= r.{b}"
        how = self.pick(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
        outs, columns = self.aliased("l", left.columns)
        if "SEMI" not in how and "ANTI" not in how:
            more_outs, more_columns = self.aliased("r", right.columns)
            outs, columns = f"{outs}, {more_outs}", columns + more_columns
        where = f" WHERE {self.condition('l', left.columns)}" if self.random.random() < 0.2 else ""
        return Query(f"SELECT {outs} FROM ({left.sql}) l {how} ({right.sql}) r ON {on}{where}", columns)

    def call(self, alias: str, columns: list[Column]) -> tuple[str, str]:
        name, type_ = self.pick(columns)
        text = self.pick(_CALLS[type_]).format(f"{alias}.{name}")
        function = text.split("(")[0]
        result = _CALL_TYPES.get(function, type_) or type_
        if function in ("avg", "percentile", "median") and type_ == "decimal":
            result = "decimal"
        return text, result

    def grouped(self, depth: int) -> Query | None:
        inner = self.query(depth - 1)
        keys = self.typed(inner.columns, _KEYS)
        if not keys:
            return None
        chosen = self.random.sample(keys, min(len(keys), self.pick((0, 1, 1, 2))))
        names = [f"q.{n}" for n, _ in chosen]
        outs = [(f"q.{n} AS {m}", (m, t)) for n, t in chosen for m in [self.name()]]
        for _ in range(self.pick((1, 2, 3))):
            text, type_ = self.call("q", inner.columns)
            new = self.name()
            outs.append((f"{text} AS {new}", (new, type_)))
        group = ""
        if names:
            group = f" GROUP BY {', '.join(names)}"
            style = self.random.random()
            if style < 0.15:
                group = f" GROUP BY {self.pick(('ROLLUP', 'CUBE'))}({', '.join(names)})"
            elif style < 0.2 and len(names) == 2:
                group = f" GROUP BY GROUPING SETS (({names[0]}), ({names[1]}), ())"
        having = (
            f" HAVING {self.pick(('count(*) > 1', 'count(*) < 4', 'max(q.' + inner.columns[0][0] + ') IS NOT NULL'))}"
            if self.random.random() < 0.25
            else ""
        )
        if having and inner.columns[0][1] == "map":
            having = ""
        return Query(
            f"SELECT {', '.join(o for o, _ in outs)} FROM ({inner.sql}) q{group}{having}", [c for _, c in outs]
        )

    def sets(self, depth: int) -> Query | None:
        left, right = self.query(depth - 1), self.query(depth - 1)
        types = [t for _, t in left.columns if t in ("int", "string", "date") and t in [u for _, u in right.columns]][
            :3
        ]
        if not types:
            return None
        names = [self.name() for _ in types]

        def side(q: Query) -> str:
            picked = [self.pick([n for n, u in q.columns if u == t]) for t in types]
            return f"SELECT {', '.join(f'q.{p} AS {n}' for p, n in zip(picked, names, strict=True))} FROM ({q.sql}) q"

        how = self.pick(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        return Query(f"({side(left)}) {how} ({side(right)})", list(zip(names, types, strict=True)))

    def windowed(self, depth: int) -> Query | None:
        inner = self.query(depth - 1)
        keys, orders = self.typed(inner.columns, _KEYS), self.typed(inner.columns, _ORDERABLE)
        if not keys or not orders:
            return None
        numbers = self.typed(inner.columns, ("int", "decimal"))
        part = f"PARTITION BY q.{self.pick(keys)[0]} " if self.random.random() < 0.8 else ""
        order = f"ORDER BY q.{self.pick(orders)[0]}{self.pick(('', ' DESC', ' NULLS LAST'))}"
        calls = [
            ("row_number()", order, "int"),
            ("rank()", order, "int"),
            ("dense_rank()", order, "int"),
            ("count(*)", "", "int"),
            ("count(*)", order, "int"),
        ]
        for n, t in numbers[:2]:
            calls += [
                (f"lag(q.{n})", order, t),
                (f"sum(q.{n})", order, t),
                (f"sum(q.{n})", f"{order} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", t),
                (f"max(q.{n})", "", t),
                (f"lead(q.{n}, 2)", order, t),
                (f"min(q.{n})", f"{order} ROWS UNBOUNDED PRECEDING", t),
            ]
        outs, columns = self.aliased("q", inner.columns)
        function, spec, type_ = self.pick(calls)
        new = self.name()
        window = f"{function} OVER ({part}{spec})"
        qualify = f" QUALIFY row_number() OVER ({part}{order}) <= 2" if self.random.random() < 0.25 else ""
        return Query(f"SELECT {outs}, {window} AS {new} FROM ({inner.sql}) q{qualify}", [*columns, (new, type_)])

    def combined(self, depth: int) -> Query | None:
        """Two aggregates of one query joined by their key."""
        inner = self.query(depth - 2)
        keys = self.typed(inner.columns, ("int", "string"))
        if not keys:
            return None
        key, type_ = self.pick(keys)
        one, one_type = self.call("q", inner.columns)
        two, two_type = self.call("q", inner.columns)
        names = [self.name() for _ in range(3)]
        sql = (
            f"WITH t1 AS (SELECT q.{key} AS g, {one} AS v FROM ({inner.sql}) q GROUP BY q.{key}), "
            f"t2 AS (SELECT q.{key} AS g, {two} AS w FROM ({inner.sql}) q GROUP BY q.{key}) "
            f"SELECT t1.g AS {names[0]}, t1.v AS {names[1]}, t2.w AS {names[2]} "
            f"FROM t1 {self.pick(('JOIN', 'LEFT JOIN'))} t2 ON t1.g = t2.g"
        )
        return Query(sql, [(names[0], type_), (names[1], one_type), (names[2], two_type)])

    def filtered_by_query(self, depth: int) -> Query | None:
        left, right = self.query(depth - 1), self.query(depth - 2)
        on = self.equality(left.columns, right.columns)
        pairs = [(a, b) for a in left.columns for b in right.columns if a[1] == b[1] and a[1] in _KEYS]
        if on is None:
            return None
        (a, _), (b, _) = self.pick(pairs)
        residual = f" AND {self.condition('r', right.columns)}" if self.random.random() < 0.4 else ""
        predicate = self.pick(
            (
                f"EXISTS (SELECT 1 FROM ({right.sql}) r WHERE {on}{residual})",
                f"NOT EXISTS (SELECT 1 FROM ({right.sql}) r WHERE {on}{residual})",
                f"l.{a} IN (SELECT r.{b} FROM ({right.sql}) r)",
                f"l.{a} NOT IN (SELECT r.{b} FROM ({right.sql}) r WHERE r.{b} IS NOT NULL)",
                f"l.{a} NOT IN (SELECT r.{b} FROM ({right.sql}) r)",
                f"(l.{a} IS NULL OR EXISTS (SELECT 1 FROM ({right.sql}) r WHERE {on}))",
                f"l.{a} >= (SELECT min(r.{b}) FROM ({right.sql}) r)",
            )
        )
        outs, columns = self.aliased("l", left.columns)
        return Query(f"SELECT {outs} FROM ({left.sql}) l WHERE {predicate}", columns)

    def scalar(self, depth: int) -> Query | None:
        left, right = self.query(depth - 1), self.query(depth - 2)
        pairs = [(a, b) for a in left.columns for b in right.columns if a[1] == b[1] and a[1] in _KEYS]
        if not pairs:
            return None
        (a, _), (b, _) = self.pick(pairs)
        text, type_ = self.call("r", right.columns)
        outs, columns = self.aliased("l", left.columns)
        new = self.name()
        return Query(
            f"SELECT {outs}, (SELECT {text} FROM ({right.sql}) r WHERE r.{b} = l.{a}) AS {new} FROM ({left.sql}) l",
            [*columns, (new, type_)],
        )

    def distinct(self, depth: int) -> Query | None:
        inner = self.query(depth - 1)
        plain = self.typed(inner.columns, (*_KEYS, "array"))
        if not plain:
            return None
        outs, columns = self.aliased("q", plain)
        return Query(f"SELECT DISTINCT {outs} FROM ({inner.sql}) q", columns)

    def top(self, depth: int) -> Query | None:
        inner = self.query(depth - 1)
        orders = self.typed(inner.columns, _ORDERABLE)
        if not orders:
            return None
        keys = ", ".join(
            f"q.{n}{self.pick(('', ' DESC', ' DESC NULLS LAST'))}"
            for n, _ in self.random.sample(orders, min(2, len(orders)))
        )
        outs, columns = self.aliased("q", inner.columns)
        return Query(
            (
                f"SELECT {outs} FROM ({inner.sql}) q "
                f"ORDER BY {keys} LIMIT {self.pick((1, 3, 5))}{self.pick(('', ' OFFSET 2'))}"
            ),
            columns,
        )

    def generated(self, depth: int) -> Query | None:
        inner = self.query(depth - 1)
        arrays = self.typed(inner.columns, ("array",))
        if not arrays:
            return None
        name = self.pick(arrays)[0]
        outs, columns = self.aliased("q", [c for c in inner.columns if c[1] != "array"] or inner.columns)
        new, place = self.name(), self.name()
        style = self.random.random()
        if style < 0.4:
            return Query(
                (
                    f"SELECT {outs}, e.{new} FROM ({inner.sql}) q "
                    f"LATERAL VIEW {self.pick(('', 'OUTER '))}explode(q.{name}) e AS {new}"
                ),
                [*columns, (new, "int")],
            )
        if style < 0.7:
            return Query(f"SELECT {outs}, explode(q.{name}) AS {new} FROM ({inner.sql}) q", [*columns, (new, "int")])
        return Query(
            (
                f"SELECT {outs}, e.{place}, e.{new} "
                f"FROM ({inner.sql}) q LATERAL VIEW posexplode(q.{name}) e AS {place}, {new}"
            ),
            [*columns, (place, "int"), (new, "int")],
        )

    def shared(self, depth: int) -> Query | None:
        inner = self.query(depth - 2)
        keys = self.typed(inner.columns, _KEYS)
        if not keys:
            return None
        key = self.pick(keys)[0]
        outs, columns = self.aliased("l", inner.columns)
        new = self.name()
        text, type_ = self.call("w", inner.columns)
        cte = self.name("t")
        sql = (
            f"WITH {cte} AS ({inner.sql}) SELECT {outs}, r.{new} "
            f"FROM {cte} l JOIN (SELECT w.{key}, {text} AS {new} FROM {cte} w GROUP BY w.{key}) r ON l.{key} = r.{key}"
        )
        return Query(sql, [*columns, (new, type_)])

    def lateral(self, depth: int) -> Query | None:
        left, right = self.query(depth - 1), self.query(depth - 2)
        pairs = [(a, b) for a in left.columns for b in right.columns if a[1] == b[1] and a[1] in _KEYS]
        if not pairs:
            return None
        (a, _), (b, _) = self.pick(pairs)
        text, type_ = self.call("r", right.columns)
        outs, columns = self.aliased("l", left.columns)
        new = self.name()
        how = self.pick((", LATERAL", "LEFT JOIN LATERAL"))
        on = " ON true" if "LEFT" in how else ""
        return Query(
            (
                f"SELECT {outs}, m.{new} FROM ({left.sql}) l {how} (SELECT {text} AS {new} "
                f"FROM ({right.sql}) r WHERE r.{b} = l.{a}) m{on}"
            ),
            [*columns, (new, type_)],
        )

    def mapped(self, depth: int) -> Query | None:
        inner = self.query(depth - 1)
        values = self.typed(inner.columns, ("int",))
        if len(values) < 2:
            return None
        (one, _), (two, _) = self.random.sample(values, 2)
        outs, columns = self.aliased("q", inner.columns)
        new = self.name()
        return Query(
            f"SELECT {outs}, map('u', q.{one}, 'n', q.{two}) AS {new} FROM ({inner.sql}) q", [*columns, (new, "map")]
        )

"""Hostile input, seeded: valid pipeline folders, SQL and arguments, each broken somewhere.

    Rng(seed).folder(valid)      yml and sql changed as data (types, keys, names) or as bytes
    Rng(seed).sql(text)          a view's text with tokens moved, lost, repeated or replaced
    Rng(seed).value()            what nobody should pass

A case is named by its seed, so that a failing one can be run alone.
"""

from __future__ import annotations

import copy
import random
import re
from typing import Any

import yaml

TEXTS = (
    "", " ", "x", "orders", "id", "null", "true", "5", "../..", "/", "/dev/null", "/dev/null/x", "s3://bucket/x",
    "file:///dev/null/x", "file://host/x", "file:x", "C:/x", "~", "a" * 300, "a/" * 3000, "\0", "a\0b", "\ud800",
    "\udcff", "é", "日本", "\u202e", "\x1b[31m", "\x07", "a\nb", "a\tb", "[/red]", "[bold]", "%s", "{0}", "{x}",
    "${HOME}", "${", "${}", "${IVM_NOT_SET}", "${IVM_NOT_SET:-}", "$HOME", "`", "'", '"', "a`b", "a'b", "a;b", "a b",
    "-a", "--", "--json", "-", "@file", "*", "?", "//", "\\", "a\\", "__ivm_x", "_ivm", "_IVM", "ORDERS", "select",
    "t; DROP TABLE t", "1=1) OR (1=1", "k = 1 --", "1" * 400, "1e400", "0x", "nan", "-0", "2026-02-30", "2026-03-31",
    "0 5 * * *", "@daily", "@never", "* * * *", "99 * * * *", "totals", "views", "delta", "state", "auto", "full",
    "incremental", "native", "spark", "expect_column_to_exist", "expect_nonsense", "⟦t⟧", "<script>", "name", "root",
)  # fmt: skip
SCALARS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    5,
    2**31,
    2**63,
    -(2**63),
    10**40,
    0.5,
    -0.0,
    1e308,
    float("inf"),
    float("nan"),
)
TOKENS = (
    *(
        "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "UNION ALL", "UNION", "EXCEPT", "JOIN",
        "LEFT JOIN", "ON", "AS", "WITH", "WITH RECURSIVE", "LATERAL",
    ),
    *(
        "(", ")", ",", ";", "--", "/*", "*/", "/*+ ARRANGE(a, k) */", "/*+", "'", '"', "`", "\\", ".", "..", "*", "a.*",
        "::", "->", "=>", "?", ":p", "$1", "{", "}", "[", "]", "@",
    ),
    *(
        "NULL", "1", "-1", "1e999", "0x1F", "X'zz'", "r'\\'", "99999999999999999999999999", "INTERVAL", "DATE", "CAST(",
        "AS INT)", "OVER (", "PARTITION BY", "ROWS", "QUALIFY",
    ),
    *(
        "sum(", "count(*)", "count(DISTINCT", "max(", "explode(", "rand()", "current_date", "IDENTIFIER('a')", "a", "b",
        "c", "k", "x", "y", "t", "v", "v__1", "nowhere", "a b", "`a b`",
    ),
    *(
        "EXISTS (", "NOT", "IN (", "BETWEEN", "LIKE", "IS", "CASE", "WHEN", "END", "GROUPING SETS", "ROLLUP(", "CUBE(",
        "PIVOT (", "UNPIVOT (", "LIMIT", "OFFSET", "TABLESAMPLE (1 ROWS)",
    ),
    *(
        "VALUES (1)", "TABLE a", "CREATE TABLE z AS", "DROP TABLE a", "INSERT INTO a", "EXPLAIN", "SET x = 1",
        "VERSION AS OF 1", "delta.`/x`", "json.`/x`", "range(3)", "⟦a⟧", "⟦", "\u2028", "\u00a0", "é",
    ),
)  # fmt: skip
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
Folder = dict[str, bytes]


def dumped(data: Any) -> bytes:
    return yaml.safe_dump(data, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")


class Rng(random.Random):
    """A source of broken things."""

    def value(self, depth: int = 2) -> Any:
        kind = self.randrange(6 if depth else 4)
        if kind < 2:
            return self.choice(TEXTS)
        if kind < 4:
            return self.choice(SCALARS)
        many = [self.value(depth - 1) for _ in range(self.randrange(3))]
        return many if kind == 4 else {self.choice(TEXTS): v for v in many}

    # -- data -------------------------------------------------------------------------------------

    def data(self, data: Any) -> Any:
        """Data with one to three of its places changed."""
        data = copy.deepcopy(data)
        for _ in range(self.choice((1, 1, 1, 2, 3))):
            places = [p for p in _places(data) if p]
            if not places:
                return self.value()
            *way, last = self.choice(places)
            owner = data
            for step in way:
                owner = owner[step]
            self._change(owner, last)
        return data

    def _change(self, owner: Any, last: Any) -> None:
        match self.randrange(7):
            case 0:
                del owner[last]
            case 1:
                owner[last] = self.value()
            case 2:
                owner[last] = [owner[last]] if self.random() < 0.5 else {self.choice(TEXTS): owner[last]}
            case 3 if isinstance(owner, dict):
                owner[self.choice((*TEXTS, *SCALARS[:6]))] = owner.pop(last)
            case 4 if isinstance(owner, dict):
                owner[self.choice(TEXTS)] = copy.deepcopy(owner[last])
            case 5 if isinstance(owner[last], str):
                owner[last] = self.text(owner[last])
            case _:
                owner[last] = self.choice(TEXTS)

    # -- text -------------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """Text with characters changed."""
        for _ in range(self.choice((1, 1, 2, 5))):
            at = self.randrange(len(text) + 1)
            piece = self.choice((*TEXTS, chr(self.randrange(0x20, 0x250)), chr(self.randrange(0x110000))))
            text = text[:at] + piece + text[at + self.choice((0, 0, 1, 5)) :]
        return text

    def bytes(self, data: bytes) -> bytes:
        """Bytes with some flipped, lost, repeated, or nested."""
        match self.randrange(7):
            case 0:
                at = self.randrange(len(data) + 1)
                return data[:at]
            case 1:
                for _ in range(self.choice((1, 1, 3, 20))):
                    if data:
                        at = self.randrange(len(data))
                        data = data[:at] + bytes([data[at] ^ (1 << self.randrange(8))]) + data[at + 1 :]
                return data
            case 2:
                lines = data.split(b"\n")
                at = self.randrange(len(lines))
                return b"\n".join([*lines[:at], lines[at], *lines[at:]])
            case 3:
                lines = data.split(b"\n")
                self.shuffle(lines)
                return b"\n".join(lines)
            case 4:
                at = self.randrange(len(data) + 1)
                return (
                    data[:at]
                    + self.choice(
                        (
                            b"[" * 2000,
                            b"{a: " * 2000,
                            b"(" * 2000,
                            b"- " * 500,
                            b"\xff\xfe",
                            b"\x00",
                            b"&a [*a]",
                            b"!!python/name:os.system ",
                            b"\t",
                        )
                    )
                    + data[at:]
                )
            case 5:
                return data.decode(errors="replace").encode(
                    self.choice(("utf-16", "latin-1", "utf-8-sig", "utf-32")), errors="replace"
                )
            case _:
                return self.text(data.decode(errors="replace")).encode("utf-8", "surrogatepass")

    def sql(self, sql: str) -> str:
        """A statement with tokens changed."""
        parts = _WORD.findall(sql)
        for _ in range(self.choice((1, 1, 1, 2, 4))):
            at = self.randrange(len(parts) + 1)
            match self.randrange(6):
                case 0:
                    del parts[at : at + self.choice((1, 2, 8))]
                case 1:
                    parts.insert(at, f" {self.choice(TOKENS)} ")
                case 2:
                    parts[at : at + 1] = [f" {self.choice(TOKENS)} "]
                case 3:
                    other = self.randrange(len(parts) + 1)
                    low, high = sorted((at, other))
                    parts[high:high] = parts[low : low + 10]
                case 4:
                    parts.insert(at, self.text(""))
                case _:
                    if len(parts) > 2:
                        one, two = self.sample(range(len(parts)), 2)
                        parts[one], parts[two] = parts[two], parts[one]
        text = "".join(parts)
        if self.random() < 0.02:
            deep = self.choice((30, 200, 1500))
            text = self.choice(
                (
                    "(" * deep + text + ")" * deep,
                    "SELECT * FROM (" * deep + text + ") q" * deep,
                    text + " AND (NOT" * deep,
                    text + " UNION ALL " + text,
                )
            )
        return text

    # -- folders ----------------------------------------------------------------------------------

    def folder(self, files: dict[str, Any]) -> Folder:
        """The files of a valid folder (yml as data, sql as text), one or two of them broken."""
        made: Folder = {name: dumped(data) if isinstance(data, dict) else data.encode() for name, data in files.items()}
        for _ in range(self.choice((1, 1, 2))):
            name = self.choice([*files, "pipeline.yml", "pipeline.yml"])
            if name not in made:
                continue
            data = files[name]
            if isinstance(data, dict) and self.random() < 0.7:
                changed = self.data(data)
                made[name] = self._spelled(changed)
            elif isinstance(data, str) and self.random() < 0.6:
                made[name] = self.sql(data).encode("utf-8", "surrogatepass")
            else:
                made[name] = self.bytes(made[name])
            if self.random() < 0.05:
                made[
                    self.choice(("views/", ""))
                    + self.choice(
                        (
                            "odd name.sql",
                            "1.sql",
                            "Totals.sql",
                            "a;b.sql",
                            "orders.sql",
                            ".hidden.sql",
                            "-x.sql",
                            "é.sql",
                            "__ivm_x.sql",
                            "READ.md",
                        )
                    )
                ] = made.pop(name)
        return made

    def _spelled(self, data: Any) -> bytes:
        try:
            return dumped(data)
        except (yaml.YAMLError, UnicodeError):
            return repr(data).encode("utf-8", "surrogatepass")

    def arguments(self, views: tuple[str, ...], folder: str) -> list[str]:
        """A command line: mostly a verb with options of its own, and values of all kinds; sometimes anything."""
        verb = self.choice((*VERBS, "help", "", "-p")) if self.random() < 0.1 else self.choice(list(VERBS))
        made = [verb]
        if verb not in ("init", "bench", "demo") and self.random() < 0.95:
            made += [self.choice(("-p", "--pipeline")), folder if self.random() < 0.85 else self.choice(TEXTS)]
        for _ in range(self.choice((0, 1, 1, 2, 3))):
            options = VERBS.get(verb, ())
            if options and self.random() < 0.6:
                name, *valid = self.choice(options)
                valid = valid or list(views)
                value = self.choice(valid) if self.random() < 0.4 else self.choice(TEXTS)
                made += [value] if name == "" else [f"{name}={value}"] if self.random() < 0.3 else [name, value]
            else:
                made.append(self.choice((*views, *views, "--json", "--json", "--help", "--", *TEXTS)))
        return made if self.random() < 0.9 else [self.text(a) for a in made]


#: The options of each verb with values that they take; "" is an argument.
VERBS: dict[str, tuple[tuple[str, ...], ...]] = {
    "init": (("", "new", "new/deep", "a b"),),
    "plan": (("", "totals"),),
    "explain": (("", "totals", "large"),),
    "refresh": (("", "totals"),),
    "backfill": (("", "totals"), ("--where", "customer = 'a'", "k = 1) OR (1=1"), ("--day", "2026-03-31", "31.3.2026")),
    "check": (("--last", "1", "99999999999999999999999"), ("--html", "page", "/dev/null/x")),
    "verify": (("", "large"),),
    "compact": (("--keep-epochs", "0", "9223372036854775808", "-1"),),
    "status": (("--json",),),
    "bench": (
        ("--scale", "0.1", "nan", "-1", "inf"),
        ("--fraction", "0.1", "nan", "2"),
        ("--fractions", "0.1,0.5", "nan", ",", "a tenth"),
        ("--rounds", "1", "0"),
        ("--warm-up", "0", "-1"),
        ("--engines", "spark,auto", "spark auto", "flink", ","),
        ("--changes", "rf", "all"),
        ("--shell", "--keep"),
        ("", "tpch", "change", "alone", "means", "other"),
        ("--folder", "x"),
    ),
    "demo": (("--scale", "0.1", "nan"), ("--batches", "1", "0", "1e9"), ("--folder", "x")),
}


def _places(data: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [way]
    for key in data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        found += _places(data[key], (*way, key))
    return found

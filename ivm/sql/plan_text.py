"""Spark's optimized plans by their text, written so that two of one meaning compare equal (pure).

numbered    columns by the order in which they come, whatever they are called
inlined     without the projections within, which Spark has more or fewer of: what they compute stands where it is
            read, and what an outer join has padded is told from what was computed after it
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

#: More than this of text is compared as it is.
_LONGEST = 1_000_000
_MANY = 1_000_000
_COLUMN = re.compile(r"#(\d+)@")
_VARIABLE = re.compile(r"lambda #(\d+)@")
#: A column that gets a name, a subquery with what it reads of outside, and the flag of EXISTS.
_MADE = re.compile(r" AS #(\d+)@|#(\d+)@ \[|ExistenceJoin\(#(\d+)@\)")
_ITEM = re.compile(r"(?:(.*) AS )?#(\d+)@", re.DOTALL)


class _UnreadableError(Exception):
    """A plan of other nodes than are known here, or with texts that look like parts of it."""


@dataclass
class _Node:
    text: str
    children: list[_Node] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.text.split(" ", 1)[0]

    def listed(self, place: int) -> list[tuple[str | None, str]]:
        """What the node's list at this place has, as (expression or None, number of the column)."""
        if self.text == self.kind:
            return []  # rows of which nothing but their number is read
        parts = [part.strip() for part in _parts(self.text.removeprefix(self.kind))]
        if not re.fullmatch(r"\[.*\]", parts[place], re.DOTALL):
            raise _UnreadableError(self.text)
        items = [_ITEM.fullmatch(item.strip()) for item in _parts(parts[place][1:-1]) if item.strip()]
        if not all(items):
            raise _UnreadableError(self.text)
        return [(item[1], item[2]) for item in items if item is not None]


def numbered(plan: str) -> str:
    """A plan's text with its columns numbered in the order in which they come, whatever they are called.

    Times are left out: what an expression of the current time gives is another one in each plan.

    >>> numbered("Project [a#7 AS b c#12L, abs(x#3)]")
    'Project [#0 AS #1, abs(#2)]'
    """
    places: dict[str, int] = {}
    return _COLUMN.sub(lambda found: f"#{places.setdefault(found[1], len(places))}", _by_number(plan))


def _by_number(plan: str) -> str:
    """The text with its columns as `#7@`, without their names."""
    for name in sorted(set(re.findall(r" AS (.+?#\d+L?)", plan)), key=len, reverse=True):
        plan = plan.replace(name, f"#{re.findall(r'#([0-9]+)L?$', name)[0]}@")
    plan = re.sub(r"[\w.]*#(\d+)L?@?", r"#\1@", plan).replace("named_struct(", "struct(")
    plan = re.sub(r"(Generate .*, (?:true|false)), \w+, \[", r"\1, [", plan)  # what it is called
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "TIME", plan)


def inlined(plan: str) -> str | None:
    """A plan's text, from the leaves up, without the projections within; None where it can't be read.

    Columns are numbered as they are made. The order of columns counts only where rows are shown, or united.

    >>> one = '''Project [c#4]
    ... +- Join LeftOuter, (a#1 = b#2)
    ...    :- LocalRelation [a#1]
    ...    +- Project [b#2, (c#3 + 1) AS c#4]
    ...       +- LocalRelation [b#2, c#3]'''
    >>> print(inlined(one))
    LocalRelation [#0]
    LocalRelation [#1, #2]
    Join LeftOuter, (#0 = #1)
    [2 padded((#2 + 1))]
    >>> other = one.replace("[c#4]", "[(c#3 + 1) AS c#5]").replace("(c#3 + 1) AS c#4", "c#3")
    >>> print(inlined(other).splitlines()[-1])
    [(2 padded(#2) + 1)]
    """
    writer = _Writer()
    try:
        writer.shown(_tree(_by_number(plan).strip("\n").strip(" ")))
    except _UnreadableError:
        return None
    return "\n".join(writer.lines)


def _tree(text: str) -> _Node:
    """The nodes of a plan, by how far their lines are indented: the plans of subqueries twice as far."""
    above: list[tuple[int, _Node]] = []
    for line in text.split("\n"):
        found = re.match(r"((?:[: ]  )*)([:+]- )?(?=\S)", line)
        depth = len(found[1]) // 3 + (found[2] is not None) if found else -1
        while above and above[-1][0] >= depth > 0:
            above.pop()
        if found is None or (depth == 0) is bool(above) or (above and depth > above[-1][0] + 2):
            raise _UnreadableError(line)  # of a text of several lines, say
        node = _Node(line[found.end() :].strip())
        for _, parent in above[-1:]:
            parent.children.append(node)
        above.append((depth, node))
    return above[0][1]


#: What each column of some rows is, by its number and in their order.
_Rows = dict[str, str]


@dataclass(frozen=True)
class _Made:
    """A node that is written: the rows it reads, all columns it knows, and its line."""

    node: _Node
    read: list[_Rows]
    known: _Rows
    line: int

    def listed(self, place: int) -> _Rows:
        """The columns that the node's list at this place has."""
        return {column: self.known[column] for _, column in self.node.listed(place)}


@dataclass
class _Writer:
    """Writes each node after those that it reads, and counts the columns that nodes make."""

    lines: list[str] = field(default_factory=list)
    made: int = 0

    def shown(self, node: _Node) -> _Rows:
        """Write a node and its rows, of which the order of columns counts; the rows."""
        rows = self.rows(node)
        if node.kind != "Project" and _repeats(node):
            raise _UnreadableError(node.text)  # of two columns of one number the place is lost
        listed = [rows[c] for _, c in node.listed(0)] if node.kind == "Project" else rows.values()
        self.lines.append(f"[{', '.join(listed)}]")
        return rows

    def rows(self, node: _Node) -> _Rows:
        """Write a node; its rows."""
        inputs = node.children[len(node.children) - _INPUTS.get(node.kind, 1) :]
        for child in node.children[: len(node.children) - len(inputs)]:
            self.shown(child)  # a subquery, whose rows are a value
        read = [self.shown(child) if node.kind == "Union" else self.rows(child) for child in inputs]
        known = {column: text for rows in read for column, text in rows.items()} | self._fresh(node, read)
        text = _bound(_with(known, node.text))
        of = _ROWS.get(node.kind)
        if node.kind == "Project":
            rows = {column: _bound(_with(known, value or f"#{column}@")) for value, column in node.listed(0)}
        elif of is not None:
            self.lines.append(text)
            rows = of(_Made(node, read, known, len(self.lines) - 1))
        else:
            raise _UnreadableError(node.text)
        if sum(map(len, rows.values())) > _LONGEST:
            raise _UnreadableError(node.text)
        return rows

    def _fresh(self, node: _Node, read: list[_Rows]) -> _Rows:
        """Names for the columns that a node makes, but for those of a projection, which stand for what they are."""
        mine = {column for _, column in node.listed(0)} if node.kind == "Project" else set()
        there = {column for rows in read for column in rows}
        defined = dict.fromkeys(c for c in _defined(node) if c not in there | mine)
        variables = set(_VARIABLE.findall(node.text))
        if set(_COLUMN.findall(node.text)) - there - mine - defined.keys() - variables:
            raise _UnreadableError(node.text)  # nobody tells what it is
        first, self.made = self.made, self.made + len(defined)
        return {column: f"#{first + i}" for i, column in enumerate(defined)}


def _repeats(node: _Node) -> bool:
    """Whether the rows that a node gives may have a column twice."""
    if node.kind == "Project":
        listed = [column for _, column in node.listed(0)]
        return len(set(listed)) < len(listed)
    return node.kind not in ("Aggregate", "Expand", "Union") and any(map(_repeats, node.children))


def _defined(node: _Node) -> Iterator[str]:
    """The columns that a node makes, and the subqueries in it, by number."""
    if node.kind in ("LocalRelation", "Generate", "Expand"):
        yield from (column for _, column in node.listed(-1))
    yield from (one or other or third for one, other, third in _MADE.findall(node.text))


def _joined(made: _Made) -> _Rows:
    left, right = made.read[-2:]
    kind = made.node.text.removeprefix("Join ").split(",")[0]
    if kind in ("LeftSemi", "LeftAnti"):
        return left
    if kind.startswith("ExistenceJoin"):
        return left | {column: made.known[column] for column in _COLUMN.findall(kind)}
    if kind in ("RightOuter", "FullOuter"):
        left = {column: _padded(made.line, text) for column, text in left.items()}
    if kind in ("LeftOuter", "FullOuter"):
        right = {column: _padded(made.line, text) for column, text in right.items()}
    if kind not in ("Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter") or left.keys() & right.keys():
        raise _UnreadableError(made.node.text)
    return left | right


def _padded(line: int, text: str) -> str:
    """What a join may have put NULL in place of: the first of several values is NULL where all of them are.

    >>> _padded(3, "coalesce(#1, 2 padded(#2))"), _padded(3, "(coalesce(#1, 0) + 1)")
    ('coalesce(3 padded(#1), 3 padded(2 padded(#2)))', '3 padded((coalesce(#1, 0) + 1))')
    """
    inside = text.removeprefix("coalesce(").removesuffix(")")
    depths = itertools.accumulate((letter == "(") - (letter == ")") for letter in inside)
    if text != f"coalesce({inside})" or min(depths, default=0) < 0:
        return f"{line} padded({text})"
    return f"coalesce({', '.join(_padded(line, part.strip()) for part in _parts(inside))})"


#: How many plans a node reads, where that isn't one; more are those of subqueries.
_INPUTS = {"LocalRelation": 0, "OneRowRelation": 0, "Join": 2, "Union": _MANY}
#: Nodes that give the rows they read, or some of them.
_PASSING = ("Filter", "Sort", "GlobalLimit", "LocalLimit", "Offset", "WindowGroupLimit")
#: Of every other kind of node but projections, its rows.
_ROWS: Mapping[str, Callable[[_Made], _Rows]] = {
    **dict.fromkeys(_PASSING, lambda made: made.read[-1]),
    **dict.fromkeys(("LocalRelation", "Aggregate", "Expand"), lambda made: made.listed(-1)),
    "OneRowRelation": lambda _: {},
    "Join": _joined,
    "Window": lambda made: made.read[-1] | made.listed(0),
    "Generate": lambda made: made.read[-1] | made.listed(-1),
    "Union": lambda made: {column: f"{made.line} united {i}" for i, column in enumerate(made.read[0])},
}


def _with(known: Mapping[str, str], text: str) -> str:
    return _COLUMN.sub(lambda found: known.get(found[1], found[0]), text)


def _bound(text: str) -> str:
    """A text with the variables of lambda functions by the order in which they come."""
    places: dict[str, int] = {}
    return _COLUMN.sub(lambda found: f"variable {places.setdefault(found[1], len(places))}", text)


def _parts(text: str) -> Iterator[str]:
    """What commas part, outside of parentheses and brackets."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            yield text[start:i]
            start = i + 1
    yield text[start:]


__all__ = ["inlined", "numbered"]

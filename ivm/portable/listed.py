"""The whole list of what is portable, and what it says of a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ivm.portable import aggregates, numbers, scalars
from ivm.portable.casts import CASTS, cast_text
from ivm.portable.entry import Entry
from ivm.portable.types import FAMILIES, MOST_DIGITS, Type, as_decimal, wider

#: What a connection needs before it runs a portable statement.
SETUP = (*numbers.MACROS, *scalars.MACROS)
SCALARS = (*numbers.ENTRIES, *scalars.ENTRIES)
AGGREGATES, WINDOWS = aggregates.AGGREGATES, aggregates.WINDOWS
#: In words, for people.
NAMES = tuple(dict.fromkeys([*(e.name for e in (*SCALARS, *AGGREGATES, *WINDOWS)), *(c.name for c in CASTS)]))


@dataclass(frozen=True)
class Value:
    """An expression as DuckDB takes it, with Spark's type of it; `literal` is what a literal says."""

    sql: str
    type: Type
    literal: int | str | None = None


def called(entries: Iterable[Entry], call: str, args: Sequence[Value]) -> Value | None:
    """A call of the list; None where it isn't on it with arguments of these types."""
    for entry in entries:
        if entry.call != call or len(args) < len(entry.takes) or (len(args) > len(entry.takes) and not entry.more):
            continue
        given = _given(entry, args)
        if given is None:
            continue
        types = [a.type for a in given]
        result = entry.result(types)
        if result is not None:
            return Value(entry.duck([a.sql for a in given], types, result), result)
    return None


def _given(entry: Entry, args: Sequence[Value]) -> list[Value] | None:
    """The arguments in the types that Spark gives them in a call; None where they are not those of the entry."""
    if entry.call == "case":
        return _case(entry, args)
    if entry.alike:
        made = alike(args) if entry.call not in _COMPARING or _is_compared_alike(args) else None
    elif entry.takes == ("decimal", "decimal"):
        made = _decimals(args)
    else:
        made = list(args)
    families = [*entry.takes, *entry.takes[-1:] * (len(args) - len(entry.takes))]
    return made if made is not None and all(_of(a, f) for a, f in zip(made, families, strict=True)) else None


_COMPARING = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def _is_compared_alike(args: Sequence[Value]) -> bool:
    """Whether the wider type is the one that Spark compares in: beside a whole literal it may be another."""
    types = [as_decimal(a.type) for a in args]
    whole = [a for a in args if a.type.name != "decimal"]
    if not whole or len(whole) == len(args) or None in types:
        return True
    if any(isinstance(a.literal, int) and not -(2**63) <= a.literal < 2**63 for a in args):
        return False  # Spark puts TRUE or FALSE in its place, for NULL as well
    if not any(isinstance(a.literal, int) for a in whole):
        return True
    known = [t for t in types if t is not None]
    return max(t.digits - t.scale for t in known) + max(t.scale for t in known) <= MOST_DIGITS


def _case(entry: Entry, args: Sequence[Value]) -> list[Value] | None:
    """Conditions and values by turns, then the value otherwise; the values in one type."""
    conditions, values = args[:-1:2], alike([*args[1:-1:2], args[-1]])
    if values is None or not all(_of(c, "boolean") for c in conditions) or not _of(values[-1], entry.takes[-1]):
        return None
    return [a for pair in zip(conditions, values[:-1], strict=True) for a in pair] + [values[-1]]


def _of(value: Value, family: str) -> bool:
    return value.type.name == family if family.startswith("[") else value.type.name in FAMILIES[family]


def _decimals(args: Sequence[Value]) -> list[Value] | None:
    """Two numbers of which one is a decimal, as decimals: a whole literal only as wide as it is."""
    if not any(a.type.name == "decimal" for a in args):
        return None
    made = []
    for arg in args:
        type_ = as_decimal(arg.type, arg.literal if isinstance(arg.literal, int) else None)
        value = converted(arg, type_) if type_ is not None else None
        if value is None:
            return None
        made.append(value)
    return made


def alike(args: Sequence[Value]) -> list[Value] | None:
    """The values in the one type that Spark gives them all; None where there is none."""
    common = args[0].type
    for arg in args[1:]:
        found = wider(common, arg.type)
        if found is None:
            return None
        common = found
    made = [converted(a, common) for a in args]
    return [m for m in made if m is not None] if all(made) else None


def converted(value: Value, target: Type) -> Value | None:
    """A value in another type; None where the cast isn't on the list."""
    if value.type == target:
        return value
    sql = cast_text(value.sql, value.type, target)
    return Value(sql, target) if sql is not None else None

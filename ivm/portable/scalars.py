"""Conditions, choices, texts, dates and times."""

from __future__ import annotations

from collections.abc import Sequence

from ivm.portable.entry import Entry, always, cast, each, first, joined, last, text
from ivm.portable.types import BOOLEAN, DATE, INT, TIMESTAMP, Type

MACROS = (
    # DuckDB changes the case of other letters by other rules than Java does: they are no numbers, so that this raises.
    "CREATE MACRO ivm_ascii(x) AS "
    "CASE WHEN x IS NULL OR strlen(x) = length(x) THEN x ELSE CAST(CAST(x AS INTEGER) AS VARCHAR) END",
)

_COMPARED = ("integer", "decimal", "double", "string", "date", "timestamp", "boolean")
_ORDERED = ("integer", "decimal", "string", "date", "timestamp")


def _compared(call: str, duck: str, families: Sequence[str] = _COMPARED) -> tuple[Entry, ...]:
    return each(call, f"({{0}} {call} {{1}})", families, 2, always(BOOLEAN), text(f"({{0}} {duck} {{1}})"))


def _chosen(args: Sequence[str], types: Sequence[Type], result: Type) -> str:
    """CASE: condition, value, condition, value, ..., the value otherwise."""
    arms = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1:-1:2], strict=True))
    return f"CASE {arms} ELSE {args[-1]} END"


CONDITIONS = (
    *_compared("=", "="),
    *_compared("<>", "<>"),
    *_compared("<", "<"),
    *_compared("<=", "<="),
    *_compared(">", ">"),
    *_compared(">=", ">="),
    *_compared("<=>", "IS NOT DISTINCT FROM", (*_COMPARED, "double's text")),
    *each("and", "({0} AND {1})", ["boolean"], 2, first, joined("AND")),
    *each("or", "({0} OR {1})", ["boolean"], 2, first, joined("OR")),
    *each("not", "(NOT {0})", ["boolean"], 1, first, text("(NOT {0})")),
    *(
        Entry("is null", "({0} IS NULL)", (f,), always(BOOLEAN), text("({0} IS NULL)"))
        for f in (*_COMPARED, "double's text")
    ),
    *each(
        "in",
        "({0} IN ({1}, {2}))",
        _COMPARED,
        3,
        always(BOOLEAN),
        lambda args, _types, _result: f"({args[0]} IN ({', '.join(args[1:])}))",
        more=True,
    ),
    Entry("like", "({0} LIKE {1})", ("string", "[pattern]"), always(BOOLEAN), text("({0} LIKE {1})")),
    *(
        Entry("case", "CASE WHEN {0} THEN {1} ELSE {2} END", ("boolean", f, f), last, _chosen, alike=True, more=True)
        for f in (*_COMPARED, "double's text")
    ),
    *each(
        "coalesce",
        "coalesce({0}, {1})",
        _COMPARED,
        2,
        first,
        lambda args, _types, _result: f"coalesce({', '.join(args)})",
        more=True,
    ),
    *(
        Entry("nullif", "nullif({0}, {1})", (f, f), first, text("CASE WHEN {0} = {1} THEN NULL ELSE {0} END"))
        for f in ("string", "date", "boolean")
    ),
    *(
        entry
        for call in ("greatest", "least")
        for entry in each(
            call,
            call + "({0}, {1})",
            _ORDERED,
            2,
            first,
            lambda args, _types, _result, call=call: f"{call}({', '.join(args)})",  # type: ignore[misc]
            more=True,
        )
    ),
)

TEXTS = (
    *each("concat", "concat({0}, {1})", ["string"], 2, first, joined("||"), more=True),
    Entry("length", "length({0})", ("string",), always(INT), cast("length({0})")),
    Entry(
        "substring",
        "substring({0}, {1}, {2})",
        ("string", "[place]", "[count]"),
        first,
        text("substring({0}, {1}, {2})"),
    ),
    Entry("left", "left({0}, {1})", ("string", "[count]"), first, text("substring({0}, 1, {1})")),
    Entry("lower", "lower({0})", ("string",), first, text("lower(ivm_ascii({0}))")),
    Entry("upper", "upper({0})", ("string",), first, text("upper(ivm_ascii({0}))")),
    *(Entry(c, c + "({0})", ("string",), first, text(c + "({0}, ' ')")) for c in ("trim", "ltrim", "rtrim")),
    Entry("replace", "replace({0}, {1}, {2})", ("string", "[text]", "[text]"), first, text("replace({0}, {1}, {2})")),
    *(
        Entry(c, c + "({0}, {1})", ("string", "string"), always(BOOLEAN), text(duck + "({0}, {1})"))
        for c, duck in (("startswith", "starts_with"), ("endswith", "suffix"), ("contains", "contains"))
    ),
)


def _part(call: str, families: Sequence[str]) -> tuple[Entry, ...]:
    return tuple(Entry(call, call + "({0})", (f,), always(INT), cast(call + "({0})")) for f in families)


#: The units to which dates are cut, by the words for them.
UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"),
    "WEEK": "week",
}
#: And times.
FINER_UNITS = {**UNITS, **dict.fromkeys(("DAY", "DD"), "day"), "HOUR": "hour", "MINUTE": "minute", "SECOND": "second"}

TIMES = (
    *(e for call in ("year", "quarter", "month", "day") for e in _part(call, ("date", "timestamp"))),
    *(e for call in ("hour", "minute", "second") for e in _part(call, ("timestamp",))),
    Entry("+", "({0} + INTERVAL '{1}' DAY)", ("date", "[days]"), first, cast("({0} + {1})")),
    Entry("-", "({0} - INTERVAL '{1}' DAY)", ("date", "[days]"), first, cast("({0} - {1})")),
    Entry("+", "({0} + INTERVAL '{1}' MONTH)", ("date", "[months]"), first, cast("({0} + to_months({1}))")),
    Entry("-", "({0} - INTERVAL '{1}' MONTH)", ("date", "[months]"), first, cast("({0} - to_months({1}))")),
    Entry(
        "date_add", "date_add({0}, {1})", ("date", "int or less"), always(DATE), cast("({0} + CAST({1} AS INTEGER))")
    ),
    Entry(
        "date_sub", "date_sub({0}, {1})", ("date", "int or less"), always(DATE), cast("({0} - CAST({1} AS INTEGER))")
    ),
    Entry("datediff", "datediff({0}, {1})", ("date", "date"), always(INT), cast("({0} - {1})")),
    Entry(
        "add_months",
        "add_months({0}, {1})",
        ("date", "int or less"),
        always(DATE),
        cast("({0} + to_months(CAST({1} AS INTEGER)))"),
    ),
    Entry("last_day", "last_day({0})", ("date",), always(DATE), cast("last_day({0})")),
    *(
        Entry(f"trunc to {u}", f"trunc({{0}}, '{u.upper()}')", ("date",), first, cast(f"date_trunc('{u}', {{0}})"))
        for u in dict.fromkeys(UNITS.values())
    ),
    *(
        Entry(
            f"date_trunc to {u}",
            f"date_trunc('{u.upper()}', {{0}})",
            ("timestamp",),
            always(TIMESTAMP),
            cast(f"date_trunc('{u}', {{0}})"),
        )
        for u in dict.fromkeys(FINER_UNITS.values())
    ),
)

ENTRIES = (*CONDITIONS, *TEXTS, *TIMES)

__all__ = ["ENTRIES", "FINER_UNITS", "MACROS", "UNITS"]

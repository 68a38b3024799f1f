"""What is refused, and why: one table of reason codes, each with a sentence and what would mend it."""

from __future__ import annotations

from ivm.plan.nodes import Refusal

_REASONS: dict[str, tuple[str, str]] = {
    "recursion": (
        "this recursion has no delta rule: {what}",
        "let each part read the recursion once, in a plain join, and group or sort outside of it",
    ),
    "nondeterministic": (
        "{what} gives another answer each time it is asked",
        "take the value from a source column, or compare with the time in WHERE (docs/operators/temporal_filters.md); "
        "the view is refreshed in full each time",
    ),
    "no_source": ("no table is read, so nothing can change", "nothing to mend: it is built once"),
    "round_trip": (
        "the SQL parser doesn't reproduce this statement's exact meaning in Spark ({what})",
        "rewrite the expression in a plainer form, and tell us",
    ),
    "parser": (
        "the SQL parser can't resolve this statement: {what}",
        "qualify the columns with their table's alias, and tell us",
    ),
    "expression": (
        "an expression is not a plain scalar: {what}",
        "compute it in a view of its own that this one reads",
    ),
    "schema": (
        "the compiled program has other columns than Spark's own: {what}",
        "cast the columns explicitly, and tell us",
    ),
    "compiled": ("the compiled program isn't accepted: {what}", "rewrite the query in a plainer form, and tell us"),
    "defect": (
        "the compiler failed on this statement ({what}), which is a defect of ours",
        "write the query in a plainer form, and tell us",
    ),
    "clause": (
        "{what} has no delta rule",
        "write it with joins, groupings or subqueries, or make that part a view of its own",
    ),
    "unorderable": (
        "{what} can't be a grouping value in Spark, so its rows can't be told apart",
        "cast it to an array of entries or to a string",
    ),
    "variant": (
        "it reads {what}: two VARIANTs of one value may be stored differently, so a delta can't tell rows apart",
        "keep what you need in a column of its own",
    ),
    "padded": (
        "it compares {what}, which Spark pads to the length of a CHAR only where it reads the table itself",
        "compare rtrim(column), or make the source's column a string",
    ),
    "mode_full": ("the view is set to mode full", "set mode auto"),
}


class UnsupportedError(Exception):
    """Raised inside the compiler; becomes the view's refusal."""

    def __init__(self, code: str, what: str = "") -> None:
        super().__init__(code)
        self.refusal = refusal(code, what)


def refusal(code: str, what: str = "") -> Refusal:
    """Build the refusal of a reason code.

    >>> refusal("no_source").code
    'no_source'
    """
    reason, mend = _REASONS[code]
    return Refusal(code, reason.format(what=what), mend)


def reason_codes() -> tuple[Refusal, ...]:
    """All reason codes, for the docs."""
    return tuple(refusal(code, "…") for code in _REASONS)

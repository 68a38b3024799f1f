"""What is refused, and why: one table of reason codes, each with a sentence and what would mend it."""

from __future__ import annotations

from ivm.plan.nodes import Refusal

_REASONS: dict[str, tuple[str, str]] = {
    "outer_join": ("{what} is not maintained yet", "use an inner join where every row has a partner, or accept the full refresh"),
    "subquery": ("a subquery inside an expression ({what}) is not maintained yet", "write it as a join with a derived table"),
    "window": ("window functions are not maintained yet", "aggregate with GROUP BY and join back, or accept the full refresh"),
    "limit": ("{what} keeps only some rows, which rows depends on all others", "leave it to the reader of the view"),
    "grouping_sets": ("{what} is not maintained yet", "write one view a grouping and UNION ALL them"),
    "set_operation": ("{what} is not maintained yet", "write it with joins and DISTINCT"),
    "generator": ("{what} is not maintained yet", "accept the full refresh"),
    "recursion": ("WITH RECURSIVE is not maintained yet", "accept the full refresh"),
    "nondeterministic": ("{what} gives another answer each time it is asked", "take the value from a source column; the view is refreshed in full each time"),
    "no_source": ("no table is read, so nothing can change", "accept the full refresh"),
    "round_trip": (
        "the SQL parser doesn't reproduce this statement's exact meaning in Spark ({what})",
        "rewrite the expression in a plainer form, and tell us",
    ),
    "parser": ("the SQL parser can't resolve this statement: {what}", "qualify the columns with their table's alias, and tell us"),
    "expression": ("an expression is not a plain scalar: {what}", "accept the full refresh"),
    "schema": ("the compiled program has other columns than Spark's own: {what}", "cast the columns explicitly, and tell us"),
    "global_reduce": ("{what} over the whole input, without GROUP BY, needs all rows again for each change", "group it, or accept the full refresh"),
    "too_many_branches": ("UNION ALL below joins would make {what} branches", "join first, or make the union a view of its own"),
    "clause": ("{what} is not maintained yet", "accept the full refresh"),
    "unorderable": ("{what} can't be a grouping value in Spark, so its rows can't be told apart", "cast it to an array of entries or to a string"),
    "mode_full": ("the view is set to mode full", "set mode auto"),
}


class UnsupportedError(Exception):
    """Raised inside the compiler; becomes the view's refusal."""

    def __init__(self, code: str, what: str = "") -> None:
        super().__init__(code)
        self.refusal = refusal(code, what)


def refusal(code: str, what: str = "") -> Refusal:
    """Build the refusal of a reason code.

    >>> refusal("window").code
    'window'
    """
    reason, mend = _REASONS[code]
    return Refusal(code, reason.format(what=what), mend)


def reason_codes() -> tuple[Refusal, ...]:
    """All reason codes, for the docs."""
    return tuple(refusal(code, "…") for code in _REASONS)


#: Functions whose value depends on when or where they run though Spark folds them within one statement.
VOLATILE = frozenset(
    [
        "current_date",
        "curdate",
        "current_timestamp",
        "now",
        "localtimestamp",
        "current_time",
        "current_user",
        "user",
        "session_user",
        "current_database",
        "current_schema",
        "current_catalog",
        "rand",
        "random",
        "randn",
        "uuid",
        "shuffle",
        "randstr",
        "uniform",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "current_timezone",
        "unix_timestamp_now",
    ]
)

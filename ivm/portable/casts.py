"""CAST: from which family of types to which, and for which of their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ivm.portable.types import FAMILIES, TEXT, Type


@dataclass(frozen=True)
class Cast:
    """A cast of one family to another, where `fits` says so of the types; DuckDB raises where the value doesn't fit."""

    source: str
    target: str
    fits: Callable[[Type, Type], bool] = lambda _source, _target: True
    duck: str = "CAST({0} AS {1})"

    @property
    def name(self) -> str:
        """The cast as people read it."""
        return f"CAST({self.source} AS {self.target})"


def _exact_double(source: Type, target: Type) -> bool:
    """Whether a decimal's digits and its power of ten are doubles, so that their quotient is rounded once."""
    return source.digits <= 15


CASTS = (
    Cast("integer", "integer"),
    Cast("integer", "decimal"),
    Cast("integer", "double"),
    Cast("decimal", "decimal"),
    Cast("decimal", "integer", lambda source, _: source.scale == 0),
    # By way of 64 bits, since of more DuckDB rounds twice.
    Cast("decimal", "double", lambda source, _: source.scale == 0, "CAST(CAST({0} AS BIGINT) AS {1})"),
    Cast("decimal", "double", _exact_double),
    Cast("double", "double"),
    # Spark knows one NaN.
    Cast("double", "double's text", duck="CASE WHEN isnan({0}) THEN 'nan' ELSE CAST({0} AS {1}) END"),
    Cast("double's text", "double"),
    Cast("boolean", "boolean"),
    Cast("boolean", "integer"),
    Cast("string", "string"),
    Cast("integer", "string"),
    Cast("date", "date"),
    Cast("timestamp", "date"),
    Cast("date", "timestamp"),
    Cast("timestamp", "timestamp", lambda source, target: source == target),
)


def cast_text(text: str, source: Type, target: Type) -> str | None:
    """A value in another type as DuckDB takes it; None where the cast isn't portable.

    >>> from ivm.portable.types import DOUBLE, INT
    >>> cast_text("x", INT, DOUBLE), cast_text("x", DOUBLE, INT)
    ('CAST(x AS DOUBLE)', None)
    """
    if source.name == "void":
        return f"CAST(NULL AS {target.duck})"
    for cast in CASTS:
        if source.name in FAMILIES[cast.source] and target.name in FAMILIES[cast.target] and cast.fits(source, target):
            return cast.duck.format(text, target.duck)
    return None


def target_of(source: Type, target: Type) -> Type:
    """What a cast to this type gives: of a double as a string something that is never shown."""
    return TEXT if source.name == "double" and target.name == "string" else target


__all__ = ["CASTS", "Cast", "cast_text", "target_of"]

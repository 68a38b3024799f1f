"""The types of portable statements: Spark's names, DuckDB's names, and the types that Spark gives results.

    type of a statement's every node = the type that Spark gives it

so a type that isn't here, or a rule that isn't, keeps a statement on Spark. The rules are those of Spark 4.2 with ANSI
mode on and `spark.sql.decimalOperations.allowPrecisionLoss` (its defaults).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The digits of Spark's and of DuckDB's widest decimal.
MOST_DIGITS = 38
#: Digits after the point that Spark keeps where a result would have more than it can hold.
_KEPT = 6


@dataclass(frozen=True)
class Type:
    """A Spark type by its name; `digits` and `scale` of decimals."""

    name: str
    digits: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.digits},{self.scale})" if self.name == "decimal" else self.name

    @property
    def duck(self) -> str:
        """DuckDB's name."""
        return f"DECIMAL({self.digits},{self.scale})" if self.name == "decimal" else _DUCK[self.name]


_DUCK = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "date": "DATE",
    # Microseconds since 1970 in UTC, as in Spark: the session's time zone is UTC, or nothing is portable.
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
    "void": "INTEGER",
    "double's text": "VARCHAR",
}
BOOLEAN, STRING, DATE, DOUBLE = Type("boolean"), Type("string"), Type("date"), Type("double")
INT, BIGINT = Type("int"), Type("bigint")
TIMESTAMP, TIMESTAMP_NTZ = Type("timestamp"), Type("timestamp_ntz")
#: Of a bare NULL.
VOID = Type("void")
#: What statements tell doubles apart by: CAST(x AS string), which may be compared and cast back, but never shown, since
#: the engines write it differently.
TEXT = Type("double's text")
#: From the narrowest to the widest, with the digits of a decimal that holds each.
INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}

#: Families of types, by which the list of what is portable names arguments.
FAMILIES: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "integer": tuple(INTEGERS),
    "int or less": ("tinyint", "smallint", "int"),
    "decimal": ("decimal",),
    "double": ("double",),
    "string": ("string",),
    "date": ("date",),
    "timestamp": ("timestamp", "timestamp_ntz"),
    "double's text": ("double's text",),
}


def type_of(text: str) -> Type | None:
    """The type that Spark writes so, if statements over it can be portable.

    >>> type_of("decimal(15,2)"), type_of("map<int,int>")
    (Type(name='decimal', digits=15, scale=2), None)
    """
    text = text.lower().strip()
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", text)
    if found:
        return decimal(int(found[1]), int(found[2]))
    return Type(text) if text in _DUCK and text not in ("void", TEXT.name) else None


def decimal(digits: int, scale: int) -> Type | None:
    """A decimal type, None where there is none of these digits."""
    return Type("decimal", digits, scale) if 0 < digits <= MOST_DIGITS and 0 <= scale <= digits else None


def bounded(digits: int, scale: int) -> Type | None:
    """Spark's type for a result that needs so many digits: of too many, those after the point go first.

    >>> str(bounded(51, 27)), str(bounded(30, 4))
    ('decimal(38,14)', 'decimal(30,4)')
    """
    if digits <= MOST_DIGITS:
        return decimal(digits, scale)
    whole = digits - scale
    return decimal(MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _KEPT)))


def as_decimal(type_: Type, literal: int | None = None) -> Type | None:
    """The decimal that Spark makes of a number beside a decimal: of a whole literal only as wide as it is.

    >>> str(as_decimal(INT)), str(as_decimal(INT, 100))
    ('decimal(10,0)', 'decimal(3,0)')
    """
    if type_.name == "decimal":
        return type_
    if type_.name not in INTEGERS:
        return None
    return decimal(len(str(abs(literal))) if literal is not None else INTEGERS[type_.name], 0)


def wider(a: Type, b: Type) -> Type | None:
    """The type in which Spark compares values of two types, or makes one column of them; None where that isn't known.

    >>> str(wider(INT, BIGINT)), str(wider(Type("decimal", 5, 2), INT)), wider(STRING, INT)
    ('bigint', 'decimal(12,2)', None)
    """
    if b in (a, VOID):
        return a
    if a == VOID:
        return b
    if a.name in INTEGERS and b.name in INTEGERS:
        return max(a, b, key=lambda t: INTEGERS[t.name])
    one, other = as_decimal(a), as_decimal(b)
    if one is not None and other is not None:
        whole, scale = max(one.digits - one.scale, other.digits - other.scale), max(one.scale, other.scale)
        # Here Spark keeps the digits before the point, and rounds what is compared.
        return decimal(min(whole + scale, MOST_DIGITS), min(scale, MOST_DIGITS - whole))
    if {a.name, b.name} <= {"double", "tinyint", "smallint", "int"}:
        return DOUBLE
    return None

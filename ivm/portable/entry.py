"""One entry of the list of what is portable.

    for all rows of arguments of these types:   DuckDB's result of `duck` = Spark's result of `spark`
                                                or DuckDB raises, and Spark is asked

So a value that DuckDB can't compute as Spark does is an error there, and never another value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ivm.portable.types import Type

#: The type of a result from those of the arguments; None where these are not portable after all.
Rule = Callable[[Sequence[Type]], Type | None]
#: A call as DuckDB takes it, from the arguments' texts, all types, and the result's.
Writer = Callable[[Sequence[str], Sequence[Type], Type], str]


@dataclass(frozen=True)
class Entry:
    """One way to call something: `call` is the operator's or function's name, `spark` how Spark writes it.

    There {0}, {1} are the arguments; `takes` names the family of each, in brackets where it is a literal. `alike`: the
    arguments are cast to one type first, as Spark does (conditions of CASE apart); `more`: there may be further ones
    like the last, or like the last two.
    """

    call: str
    spark: str
    takes: tuple[str, ...]
    result: Rule
    duck: Writer
    alike: bool = False
    more: bool = False

    @property
    def name(self) -> str:
        """The entry as people read it.

        >>> Entry("abs", "abs({0})", ("int",), first, text("abs({0})")).name
        'abs(int)'
        """
        return self.spark.format(*(t.strip("[]") if t.startswith("[") else t for t in self.takes))


def text(template: str) -> Writer:
    """The arguments put into a text."""
    return lambda args, _types, _result: template.format(*args)


def cast(template: str) -> Writer:
    """The same in the result's type: a value that it can't hold raises."""
    return lambda args, _types, result: f"CAST({template.format(*args)} AS {result.duck})"


def checked(template: str) -> Writer:
    """Whole numbers that raise where they overflow, whatever is done with them.

    The plus before them does nothing but hide them from DuckDB's optimizer, which makes `x + 1 > 5` one of `x > 4` and
    `sum(x + 1)` one of `sum(x) + count(x)`, and so forgets to raise where Spark does.
    """
    return cast(f"+{template}")


def joined(operator: str) -> Writer:
    """The arguments, as many as there are, with an operator between them."""
    return lambda args, _types, _result: f"({f' {operator} '.join(args)})"


def first(types: Sequence[Type]) -> Type | None:
    """The type of the first argument."""
    return types[0]


def last(types: Sequence[Type]) -> Type | None:
    """The type of the last argument."""
    return types[-1]


def always(type_: Type) -> Rule:
    """One type, whatever the arguments are."""
    return lambda _: type_


def each(
    call: str, spark: str, families: Sequence[str], width: int, result: Rule, duck: Writer, more: bool = False
) -> tuple[Entry, ...]:
    """An entry for each family, of which all arguments are, cast to one type."""
    return tuple(Entry(call, spark, (f,) * width, result, duck, alike=width > 1 or more, more=more) for f in families)

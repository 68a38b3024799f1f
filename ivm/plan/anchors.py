"""Which leaf of a branch carries group keys, so that the rows of affected groups can be read by them (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from ivm.plan.nodes import Branch, Relation

#: Types whose equality is the same in Spark and in the native engine; only these are walked.
_KEYABLE = ("tinyint", "smallint", "int", "bigint", "string", "date", "boolean")


def keyable(type_: str) -> bool:
    """Whether columns of this type may be walked.

    >>> keyable("decimal(15,2)"), keyable("double"), keyable("string collate UTF8_LCASE")
    (True, False, False)
    """
    return type_ in _KEYABLE or type_.startswith("decimal(")


def anchor(branch: Branch, keys: set[str], relations: Mapping[str, Relation]) -> tuple[str, dict[str, str]]:
    """The leaf of scope 0 that carries most keys as bare, walkable columns: its alias and its column by key."""
    found: dict[str, dict[str, str]] = {}
    linear = {leaf.alias: leaf.relation for leaf in branch.linear}
    for output in branch.outputs:
        if output.name in keys and output.expr.plain:
            alias, column = output.expr.plain
            if alias in linear and keyable(relations[linear[alias]].type_of(column)):
                found.setdefault(alias, {})[output.name] = column
    return max(found.items(), key=lambda item: (len(item[1]), item[0]), default=("", {}))

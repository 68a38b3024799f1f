"""What the names in a project's queries stand for, and its queries with these names written out.

    a materialized view          by its name alone
    a temporary view, a view     its query, as a derived table
    any other                    a table, with what the project says of its database

Invariant: no name means another thing than it meant to Spark, which looks for a temporary view first, and for
all else in the project's database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ivm import adopt
from ivm.errors import ConfigError, ViewError
from ivm.names import check_name, ident, is_path
from ivm.sdp import statements
from ivm.sdp.datasets import Dataset, Kind
from ivm.sdp.spec import Spec
from ivm.sql.text import relation_tables, splice


class Names:
    """`views` are those that are kept, by their full names; `parts` what is written out where it is read."""

    def __init__(self, spec: Spec, found: Sequence[Dataset]) -> None:
        self.spec = spec
        self.views = {spec.full(d.name): d for d in found if d.kind is Kind.MATERIALIZED}
        self.parts = {d.view.lower(): d for d in found if d.kind in (Kind.TEMPORARY, Kind.PERSISTED)}
        named = [d for d in found if d.kind in (Kind.MATERIALIZED, Kind.TEMPORARY, Kind.PERSISTED)]
        seen: dict[str, Dataset] = {}
        for dataset in named:
            other = seen.setdefault(check_name(dataset.view, "view").lower(), dataset)
            if other is not dataset:
                raise ConfigError(
                    f"{dataset.name} ({dataset.where}) is called as {other.name} ({other.where}).",
                    "A pipeline's views have one set of names, without databases: rename one.",
                )

    def leave(self, dataset: Dataset) -> None:
        """Leave a view to Spark; to those that read it, it is a table."""
        del self.views[self.spec.full(dataset.name)]

    def text(self, dataset: Dataset, within: tuple[Dataset, ...] = ()) -> str:
        """A query with views called by their names, and parts written out. Raises ViewError where it can't be had."""
        if dataset.reason:
            raise ViewError(dataset.reason, "Write its query as SQL.")
        if dataset in within:
            raise ViewError("it reads itself", "Break the circle.")
        mentioned = {t.lower(): t for t, *_ in relation_tables(dataset.sql)}
        if statements.reads_stream(dataset.sql):
            raise ViewError("it reads a stream", "Read the table.")
        called = {m: self._called(t) for m, t in mentioned.items()}
        if bound := adopt.captured(dataset.sql, called):
            raise ViewError(f"its WITH names {min(bound)}, as does the project a view that it reads", "Rename it.")
        sql = adopt.renamed(dataset.sql, called)
        bodies = {}
        for name in {t.lower() for t, *_ in relation_tables(sql)} & set(self.parts):
            try:
                bodies[name] = f"(\n{self.text(self.parts[name], (*within, dataset))}\n)"
            except ViewError as error:
                raise ViewError(f"it reads {name}, and {error.message.rstrip('.')}", error.hint) from error
        sql = _put(sql, bodies)
        if dataset.columns and dataset.kind is not Kind.MATERIALIZED:
            listed = ", ".join(ident(c) for c in dataset.columns)
            sql = f"SELECT * FROM (\n{sql}\n) AS named({listed})"
        return sql

    def _called(self, table: str) -> str:
        """A definition by its name alone, and so a table of the project's database; another by its own."""
        if is_path(table):
            return table
        key, last = self.spec.full(table), table.rsplit(".", 1)[-1]
        part = self.parts.get(last.lower())
        named = part is not None and (
            table == last if part.kind is Kind.TEMPORARY else self.spec.full(part.name) == key
        )
        if named or key in self.views:
            return last
        if part is None and last.lower() not in {d.view.lower() for d in self.views.values()}:
            # A name with more parts than the project gives back to its last one keeps them.
            restored = self.spec.qualified(last)
            same = key == self.spec.full(last) and table.count(".") <= restored.count(".")
            return last if same else table
        return ".".join(key[1:]) if table == last else table


def _put(sql: str, bodies: Mapping[str, str]) -> str:
    """A query with tables replaced. Raises ViewError where its WITH would bind a name inside what is put there."""
    mentions = [t.lower() for t, *_ in relation_tables(sql)]
    inside = [t.lower() for name in mentions if name in bodies for t, *_ in relation_tables(bodies[name])]
    meant = Counter([*(m for m in mentions if m not in bodies), *inside])
    put = splice(sql, dict(bodies))
    if bound := meant - Counter(t.lower() for t, *_ in relation_tables(put)):
        raise ViewError(f"its WITH names {min(bound)}, which is also a table that {min(bodies)} reads", "Rename it.")
    return put

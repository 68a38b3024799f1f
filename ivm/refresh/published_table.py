"""A unit's table in both lanes, and which of them commits to it."""

from __future__ import annotations

from dataclasses import dataclass

from ivm.errors import StateError
from ivm.lake.features import drop_features
from ivm.lake.types import beyond_arrow
from ivm.planner.lanes import Choice, Lane, writes
from ivm.refresh.context import Context
from ivm.storage.location import Location
from ivm.table.protocol import Verb
from ivm.table.rust import RustTable
from ivm.table.spark import SparkTable


@dataclass(frozen=True)
class PublishedTable:
    """The lanes of a table of ours; `setting` is the pipeline's lane, `local` says that it lies in a folder."""

    rust: RustTable
    spark: SparkTable
    setting: str
    local: bool

    @classmethod
    def of(cls, context: Context, path: str, scratch: Location | None = None) -> PublishedTable:
        """A table under a pipeline's root; rows that Spark is to write are handed over to it in `scratch`."""
        rust = RustTable(path, context.limits, ours=True)
        return cls(rust, SparkTable(path, context.spark, scratch), context.lane, context.layout.base.local)

    def choice(self, verb: Verb, schema: str = "", large: str = "") -> Choice:
        """Who does a verb. `schema` is Delta's one of rows to write, `large` says why they are Spark's, if they are.

        Raises StateError where nobody may.
        """
        strange = beyond_arrow(schema) if schema else ()
        alone = f"the type of column {strange[0]!r}" if strange else ""
        found = writes(self.setting, self.rust.refusal(verb), self.local, alone, large)
        if found.lane is Lane.NOBODY:
            raise self.unwritable(found.reason)
        return found

    def lane(self, found: Choice) -> RustTable | SparkTable:
        """The table in the lane that was chosen."""
        return self.spark if found.lane is Lane.SPARK else self.rust

    def unwritable(self, why: str) -> StateError:
        """What is to be said where nobody may write."""
        path = self.rust.path
        features = self.rust.unwritable_features()
        hint = drop_features(path, features) if features else "Set lane auto: Spark then writes what delta-rs can't."
        return StateError(f"Nobody can write the published table {path}: {why}.", hint)

"""Who reads and who writes a table, and how: by what the lanes can, by size, place and the pipeline's `lane` (pure).

auto      delta-rs where it can and the rows are few, else Spark
spark     Spark, but for commits to an object store
native    delta-rs, or nobody
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ivm.planner.limits import EMBEDDED, Limits


def stays_with_spark(deltas: Iterable[int], limits: Limits = EMBEDDED) -> bool:
    """Whether a group of units reads by Spark alone from the start, since a delta is too large for this process.

    Slices are not guessed at: estimates are coarse, and to read one up to the limit costs little beside what follows.

    >>> stays_with_spark([10, 20]), stays_with_spark([10, 6_000_000])
    (False, True)
    """
    return any(n > limits.delta_rows for n in deltas)


class Lane(Enum):
    """Who does a verb on a table."""

    NATIVE = "delta-rs"
    SPARK = "Spark"
    #: Neither may; the reason says why.
    NOBODY = "nobody"


@dataclass(frozen=True)
class Choice:
    """A lane, and why it is this one."""

    lane: Lane
    reason: str

    def __str__(self) -> str:
        """As `explain` shows it.

        >>> print(Choice(Lane.SPARK, "the lane spark is set"))
        Spark: the lane spark is set
        """
        return f"{self.lane.value}: {self.reason}"


def reads(setting: str, refused: str) -> Choice:
    """Who reads a table: `setting` is the pipeline's lane, `refused` says why delta-rs doesn't, "" where it does.

    >>> str(reads("auto", "")), str(reads("auto", "partition columns")), str(reads("native", "column mapping"))
    ('delta-rs: it reads the table as Spark does', 'Spark: partition columns', 'nobody: column mapping')
    >>> str(reads("spark", ""))
    'Spark: the lane spark is set'
    """
    if refused:
        return Choice(Lane.NOBODY if setting == "native" else Lane.SPARK, refused)
    if setting == "spark":
        return Choice(Lane.SPARK, _SET)
    return Choice(Lane.NATIVE, "it reads the table as Spark does")


def writes(setting: str, refused: str, local: bool, alone: str = "", large: str = "") -> Choice:
    """Who commits to a table of ours.

    `alone` says why no row of it can ever be delta-rs's, `refused` why delta-rs doesn't write it as it is now, `large`
    why Spark is to be preferred; "" for neither. Spark's commits beside delta-rs's are safe on a folder (`local`) only.

    >>> str(writes("auto", "", True)), str(writes("auto", "", True, large="2,000,000 rows"))
    ('delta-rs: it commits in milliseconds', 'Spark: 2,000,000 rows')
    >>> str(writes("auto", "clustering", True)), str(writes("auto", "clustering", False))
    ('Spark: clustering', 'nobody: clustering, and in an object store only delta-rs commits')
    >>> str(writes("spark", "", True)), str(writes("spark", "", False))
    ('Spark: the lane spark is set', 'delta-rs: in an object store only delta-rs commits')
    >>> str(writes("native", "", True, large="2,000,000 rows")), str(writes("native", "clustering", True))
    ('delta-rs: the lane native is set', 'nobody: clustering, and the lane native is set')
    """
    if setting == "native":
        why = alone or refused
        return Choice(Lane.NOBODY, f"{why}, and the lane native is set") if why else Choice(Lane.NATIVE, _NATIVE_SET)
    if alone:
        return Choice(Lane.SPARK, alone)
    if refused:
        return Choice(Lane.SPARK, refused) if local else Choice(Lane.NOBODY, f"{refused}, and {_REMOTE}")
    if not local:
        return Choice(Lane.NATIVE, _REMOTE)
    if setting == "spark":
        return Choice(Lane.SPARK, _SET)
    return Choice(Lane.SPARK, large) if large else Choice(Lane.NATIVE, "it commits in milliseconds")


_SET, _NATIVE_SET = "the lane spark is set", "the lane native is set"
_REMOTE = "in an object store only delta-rs commits"


class Publishing(Enum):
    """How a batch gets into its table."""

    #: Merged by delta-rs, through this process.
    NATIVE = "native"
    #: Merged by Spark.
    MERGE = "merge"
    #: Spark writes all rows of the table anew, whose files take the place of the old ones.
    ANEW = "anew"


def publishing(
    batch: int, table: int, local: bool, limits: Limits = EMBEDDED, refused: str = "", setting: str = "auto"
) -> tuple[Publishing | None, str]:
    """How a batch of so many rows gets into a table of so many, and why; None where nobody may write there.

    `refused` says why delta-rs can't, `setting` is the pipeline's lane. Where a batch touches most files, to write them
    anew is cheaper than to look for its rows first.

    >>> publishing(10, 1_000_000, local=True)
    (<Publishing.NATIVE: 'native'>, 'it commits in milliseconds')
    >>> publishing(2_000_000, 60_000_000, local=True)
    (<Publishing.MERGE: 'merge'>, 'a batch of more than 1,000,000 rows')
    >>> publishing(2_000_000, 3_000_000, local=True)[0], publishing(2_000_000, 60_000_000, local=False)[0]
    (<Publishing.ANEW: 'anew'>, <Publishing.ANEW: 'anew'>)
    >>> publishing(10, 1_000_000, local=True, refused="clustering")
    (<Publishing.MERGE: 'merge'>, 'clustering')
    """
    many = batch > limits.result_rows
    large = f"a batch of more than {limits.result_rows:,} rows" if many and batch <= limits.anew_share * table else ""
    choice = writes(setting, refused, local, large=large)
    if choice.lane is Lane.NOBODY:
        return None, choice.reason
    if choice.lane is Lane.SPARK:
        return Publishing.MERGE, choice.reason
    if many:
        return Publishing.ANEW, f"a batch of more than {limits.result_rows:,} rows: files take the place of others"
    return Publishing.NATIVE, choice.reason

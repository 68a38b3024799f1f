"""How long what was replaced is kept."""

from __future__ import annotations

from dataclasses import dataclass

from ivm import parameters

#: Of each setting the least and the greatest value; a century of hours is what Delta's intervals surely hold.
BOUNDS = {"hours": (0, 876_000), "epochs": (1, parameters.MAX_NUMBER), "compact_every": (0, parameters.MAX_NUMBER)}


@dataclass(frozen=True)
class Retention:
    """How long what was replaced is kept.

    Files and log of published tables are kept for `hours`, events of the last `epochs` in the log.
    A refresh compacts by itself in every `compact_every`-th epoch; 0 for never (Airflow has a task for it).
    Raises ConfigError for values out of `BOUNDS`.
    """

    hours: int = 168
    epochs: int = 100
    compact_every: int = 50

    def __post_init__(self) -> None:
        for name, (least, most) in BOUNDS.items():
            parameters.number(getattr(self, name), f"retention.{name}", least, most)

    def output(self) -> dict[str, str]:
        """The configuration of published tables."""
        kept = f"interval {self.hours} hours"
        return {
            "delta.enableChangeDataFeed": "true",
            "delta.checkpointInterval": "20",
            "delta.logRetentionDuration": kept,
            "delta.deletedFileRetentionDuration": kept,
        }

"""What a benchmark is asked to measure. Invariant: one that was made can be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ivm.errors import ConfigError
from ivm.parameters import ENGINES, number, shown

#: ivm by its engines, Spark's full rebuild, DuckDB's full rebuild.
REBUILD, DUCKDB = "rebuild", "duckdb"
CONTESTANTS = (*ENGINES, REBUILD, DUCKDB)
#: What a batch of changes does: TPC-H's refresh functions only, or these and updates of all changing tables.
MIXED, REFRESH_FUNCTIONS = "mixed", "rf"
CHANGES = (MIXED, REFRESH_FUNCTIONS)
#: The share of rows that a batch changes.
FRACTION = 0.001


@dataclass(frozen=True)
class Asked:
    """A benchmark by name. Raises ConfigError for what can't be measured.

    `fractions` are shares of the rows that a batch changes; `rounds` are measured after `warm_up` others; `engines` are
    contestants, of which some benchmarks have but ivm's; `shell` times fresh processes as well; `again` goes on with
    what an earlier run left in the folder.
    """

    name: str
    folder: Path
    scale: float = 1.0
    fractions: tuple[float, ...] = (FRACTION,)
    rounds: int = 3
    warm_up: int = 2
    engines: tuple[str, ...] = CONTESTANTS
    changes: str = MIXED
    shell: bool = False
    again: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.scale <= 100_000:
            raise ConfigError(f"There is no scale {self.scale}.", "Give a number above 0, at most 100000.")
        strange = [f for f in self.fractions if not 0 < f <= 1]
        if strange or not self.fractions:
            raise ConfigError(f"There is no share of rows {strange}.", "Give numbers above 0, at most 1.")
        number(self.rounds, "The number of rounds", 1, 1_000)
        number(self.warm_up, "The number of rounds to warm up", 0, 1_000)
        _known(self.engines, CONTESTANTS, "contestant")
        _known((self.changes,), CHANGES, "kind of changes")
        if not self.own:
            raise ConfigError("No engine of ivm is among the contestants.", f"Name one of: {', '.join(ENGINES)}.")

    @property
    def fraction(self) -> float:
        """The first, where a benchmark takes one."""
        return self.fractions[0]

    @property
    def command(self) -> str:
        """What asks for it in a clone; it says what differs from the defaults."""
        usual = Asked(self.name, self.folder)
        options = [f"--scale {self.scale:g}"]
        if self.fractions != usual.fractions:
            listed = ",".join(f"{f:g}" for f in self.fractions)
            options.append(f"--fractions {listed}" if self.name == "change" else f"--fraction {listed}")
        options += [
            f"--{n.replace('_', '-')} {getattr(self, n)}"
            for n in ("rounds", "warm_up")
            if getattr(self, n) != getattr(usual, n)
        ]
        if self.engines != usual.engines:
            options.append(f"--engines {','.join(self.engines)}")
        if self.changes != usual.changes:
            options.append(f"--changes {self.changes}")
        options += [f"--{flag}" for flag in ("shell", "again") if getattr(self, flag)]
        return f"./run bench {self.name} {' '.join(options)} --keep"

    @property
    def own(self) -> tuple[str, ...]:
        """The contestants that are engines of ivm, at least one."""
        return tuple(e for e in self.engines if e in ENGINES)


def _known(given: Sequence[str], there: Sequence[str], what: str) -> None:
    strange = [g for g in given if g not in there]
    if strange or not given:
        found = shown(strange[0]) if strange else "without a name"
        raise ConfigError(f"There is no {what} {found}.", f"Choose of: {', '.join(there)}.")


def listed(text: str) -> tuple[str, ...]:
    """The words of an option, by commas or spaces: "spark,auto" or "spark auto", each once."""
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


def shares(text: str) -> tuple[float, ...]:
    """The numbers of an option. Raises ConfigError for a word that is none."""
    try:
        return tuple(float(word) for word in listed(text))
    except ValueError as error:
        raise ConfigError(f"{shown(text)} is no list of numbers.", "Write 0.001,0.01.") from error

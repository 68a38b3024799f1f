"""Options and arguments that several verbs take."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, Any

import typer

Folder = Annotated[Path, typer.Option("--pipeline", "-p", help="The pipeline's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Views = Annotated[list[str] | None, typer.Argument(help="Views; all if none is named.")]
HERE = Path()


def load(folder: Path, passing: bool = False) -> Any:
    """The pipeline of a folder; `passing` where the command only applies changes, or looks, and ends then."""
    from ivm.pipeline import Pipeline
    from ivm.without_pandas import tell_arrow

    tell_arrow()
    if not gc.get_freeze_count():
        gc.freeze()  # modules stay until the process ends: looking through them takes a tenth of a second then
    pipe = Pipeline.load(folder)
    pipe.passing = passing
    return pipe


def share(value: float) -> float:
    """A share of something, as an option."""
    if not 0 < value <= 1:
        raise typer.BadParameter("expected a number above 0, at most 1.")
    return value

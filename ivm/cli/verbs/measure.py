"""Verbs that measure, and show the whole of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ivm import parameters
from ivm.cli import terminal
from ivm.cli.options import AsJson, share

DEMO = Path(os.environ.get("IVM_DEMO_FOLDER", "demo"))


def bench(
    name: Annotated[str, typer.Argument(help="tpch")] = "tpch",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.", callback=_scale)] = 1.0,
    fraction: Annotated[float, typer.Option(help="Share of rows that change.", callback=share)] = 0.001,
    rounds: Annotated[int, typer.Option(help="Measured rounds.", min=1, max=1000)] = 2,
    folder: Annotated[Path, typer.Option(help="Where data and lake are made.")] = Path("demo/bench"),
    as_json: AsJson = False,
) -> None:
    """Measure refreshes against full recomputes on this machine."""
    from ivm.demo.bench import run_bench

    raise typer.Exit(
        run_bench(
            name, scale, fraction, rounds, Path(parameters.local_folder(folder, "--folder")), as_json, terminal.out
        )
    )


def _scale(value: float) -> float:
    """A scale factor that TPC-H has; typer's `min` lets NaN pass."""
    if not 0 < value <= 100_000:
        raise typer.BadParameter("expected a number above 0, at most 100000.")
    return value


def demo(
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.", callback=_scale)] = 0.1,
    batches: Annotated[int, typer.Option(help="Change batches.", min=1, max=1000)] = 2,
    keep: Annotated[bool, typer.Option("--keep", help="Leave Airflow running.")] = False,
    folder: Annotated[Path, typer.Option(help="Where data, lake and Airflow's home are made.")] = DEMO,
) -> None:
    """Run the main job on TPC-H through Airflow, and compare every view with a recompute after every batch."""
    from ivm.demo.main import run_demo

    raise typer.Exit(
        run_demo(scale, batches, keep, Path(parameters.local_folder(folder, "--folder")).absolute(), terminal.out)
    )

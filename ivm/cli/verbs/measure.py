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
    name: Annotated[str, typer.Argument(help="tpch, change, alone or means.")] = "tpch",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.", callback=_scale)] = 1.0,
    fraction: Annotated[float, typer.Option(help="Share of rows that change.", callback=share)] = 0.001,
    fractions: Annotated[str, typer.Option(help="Shares for `change`, by commas.")] = "0.0001,0.001,0.01,0.1,0.5",
    rounds: Annotated[int, typer.Option(help="Measured rounds.", min=1, max=1000)] = 3,
    warm_up: Annotated[int, typer.Option(help="Rounds before them.", min=0, max=1000)] = 2,
    engines: Annotated[
        str, typer.Option(help="Contestants, by commas: ivm by spark or auto, Spark's rebuild, DuckDB's.")
    ] = "spark,auto,rebuild,duckdb",
    changes: Annotated[str, typer.Option(help="mixed, or rf: TPC-H's refresh functions only.")] = "mixed",
    shell: Annotated[bool, typer.Option("--shell", help="Time fresh processes, too (tpch).")] = False,
    again: Annotated[bool, typer.Option("--again", help="Go on with what an earlier run left in the folder.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Write the figures to benchmarks/results.")] = False,
    folder: Annotated[Path, typer.Option(help="Where data and lake are made.")] = DEMO / "bench",
    as_json: AsJson = False,
) -> None:
    """Measure refreshes against full rebuilds on this machine, by turns; exit 1 if a view isn't what it must be."""
    from ivm.demo.bench import run_bench
    from ivm.demo.bench.asked import Asked, listed, shares

    place = Path(parameters.local_folder(folder, "--folder"))
    chosen = shares(fractions) if name == "change" else (fraction,)
    asked = Asked(name, place, scale, chosen, rounds, warm_up, listed(engines), changes, shell, again)
    raise typer.Exit(run_bench(asked, keep, as_json, terminal.out))


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

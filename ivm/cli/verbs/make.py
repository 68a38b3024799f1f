"""Verbs that make a pipeline's folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ivm import parameters
from ivm.cli import terminal
from ivm.cli.options import AsJson
from ivm.cli.verbs.advance import plan
from ivm.errors import ConfigError


def init(folder: Annotated[Path, typer.Argument(help="A new folder.")], as_json: AsJson = False) -> None:
    """Make a new pipeline folder with an example to fill in."""
    from ivm.cli.template import write_template

    files = write_template(folder)
    terminal.shown(
        {"files": files},
        as_json,
        lambda: terminal.out.print(
            "\n".join(["made:", *(f"  {f}" for f in files), f"next: edit them, then `ivm plan -p {folder}`"])
        ),
    )


def adopt(
    to: Annotated[Path, typer.Option(help="The new pipeline's folder.")],
    query: Annotated[
        str, typer.Argument(help="A SELECT, a file of one, a folder of .sql files, a spark-pipeline.yml.")
    ] = "",
    dbt: Annotated[
        Path | None, typer.Option(help="In place of a query: a dbt project's target/manifest.json, compiled.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Of a dbt project, a model that becomes a view; else those that say 'ivm', or all."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Write anew what came from dbt in a folder that is there.")
    ] = False,
    name: Annotated[str, typer.Option(help="The view's name, where the query is given as text.")] = "adopted",
    tables: Annotated[str, typer.Option(help="A folder or URL where the tables lie under their names.")] = "",
    table: Annotated[
        list[str] | None, typer.Option(help="NAME=PLACE: where a table lies, as the query or the project calls it.")
    ] = None,
    root: Annotated[
        str, typer.Option(help="Where the pipeline keeps its state and outputs, seen from its folder.")
    ] = "./lake",
    yes: Annotated[
        bool | None,
        typer.Option(
            "--yes/--no", help="Switch change feeds on without asking, or leave them off: see docs/sources.md."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a pipeline folder of queries, or of dbt's models: find tables, count keys, switch feeds on, plan."""
    from ivm import adopt as adopting
    from ivm.cli import adopted
    from ivm.dbt import project as dbt_project
    from ivm.sdp import project as sdp_project
    from ivm.sdp import spec

    target = Path(parameters.local_folder(to, "--to"))
    adopted.check_asked(query, dbt, model, again)
    places, declared = adopted.places(table or []), spec.spec_at(query)
    there = target if again else None
    taken = dbt_project.take(dbt, model or [], tables, places, there) if dbt is not None else None
    if taken is not None:
        found = taken.adoption
    elif declared is not None:
        found = sdp_project.look(sdp_project.read(declared), tables, places)
    else:
        found = adopting.look(adopting.queries(query, name), tables, places)
    if not as_json:
        terminal.table("tables", adopted.COLUMNS, adopted.rows(found))
        terminal.warn(found.left)
    if found.without_feed and yes is None and not (not as_json and adopted.agreed(found)):
        raise ConfigError(
            f"These tables have no change feed: {', '.join(t.written for t in found.without_feed)}.",
            "Nothing was done. Repeat it with --yes to switch their feeds on: their writers then keep change files; "
            "or with --no, to follow them by the files that come and go.",
        )
    called = adopted.name_of(target)
    files = (
        dbt_project.write(taken, target, called, root, again) if taken else adopting.write(found, target, called, root)
    )
    if yes is not False:
        adopting.switch_on(found.without_feed)
    terminal.shown(
        {**asdict(found), "files": files},
        as_json,
        lambda: terminal.out.print("\n".join(["made:", *(f"  {f}" for f in files)]), soft_wrap=True),
    )
    if not as_json:
        plan(None, target, as_json)

"""A dbt project made into a pipeline folder, once or again.

    adopt = read the manifest -> choose models -> views, checks -> look at the tables that stay outside (`ivm.adopt`)

Invariant: a second time only what came from dbt is written anew: view files that carry the mark, checks.yml, and
dbt_vars.json. pipeline.yml is its owner's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ivm import adopt
from ivm.adopt import Adoption, look, made_files, same_place
from ivm.config import load_folder
from ivm.dbt.checks import checks
from ivm.dbt.manifest import Model, Project, read
from ivm.dbt.views import DECLARED, Left, chosen, left, views, within
from ivm.errors import ConfigError
from ivm.files import read_text, writing
from ivm.names import is_path, table_ref
from ivm.storage.location import Location

#: Begin a file that came from dbt.
MARK, HEADING = "-- dbt: ", "# dbt: its tests; `ivm adopt --again` writes this file anew.\n"
#: What `dbt run --vars` is given: where each view of a model materialized as 'ivm' lies, and of which text it is.
VARS = "dbt_vars.json"


@dataclass(frozen=True)
class Declared:
    """A model that is materialized as 'ivm': its view, and a hash of its compiled SQL.

    `under` are the models that are views under it, too, each with a hash of its text: dbt has their compiled SQL when
    it writes a manifest, and not when it builds the model.
    """

    view: str
    md5: str
    under: Mapping[str, str]


@dataclass(frozen=True)
class Taken:
    """What would be written, and what stays with dbt (`left`). `declared` are models materialized as 'ivm', by id."""

    adoption: Adoption
    left: tuple[Left, ...]
    declared: Mapping[str, Declared]


def take(
    manifest: Path,
    names: Sequence[str] = (),
    folder: str = "",
    places: Mapping[str, str] | None = None,
    pipeline: Path | None = None,
) -> Taken:
    """Read a project and look at the tables that its views read; nothing is written.

    `places` are by what the compiled SQL calls a table or by what the project does: `raw.orders` of a source, a seed's
    name. `pipeline` is the folder that is there already, whose sources keep their names. Raises what
    `ivm.dbt.manifest.read`, `ivm.dbt.views` and `ivm.adopt.look` raise.
    """
    kept = {s.name: s.location for s in load_folder(pipeline).sources} if pipeline is not None else {}
    project = read(manifest)
    models = chosen(project, names)
    made = views(project, models)
    rules, for_tests, untaken = checks(project, models)
    ids = {m.name: m.id for m in models}
    marked = {v: f"{MARK}{ids.get(v, v)}\n{sql}" for v, sql in (made | for_tests).items()}
    found = look(marked, folder, _relations(project, places or {}), kept)
    stays = (*left(project, models), *untaken)
    told = tuple(f"{one.what}: {one.why}" for one in stays)
    return Taken(
        Adoption(found.tables, found.views, checks=rules, heading=HEADING, left=told),
        stays,
        {m.id: _declared(project, m) for m in models if m.materialized == DECLARED},
    )


def _declared(project: Project, model: Model) -> Declared:
    under = sorted(within(project, [model.id]) - {model.id})
    return Declared(model.name, fingerprint(model.sql), {i: fingerprint(project.models[i].raw) for i in under})


def fingerprint(sql: str) -> str:
    """A hash of a text, as dbt's `local_md5` makes it of the same text.

    >>> fingerprint("select 1")
    '95adb6e77a0884d9e50232cb8c5c969d'
    """
    return hashlib.md5(sql.encode(), usedforsecurity=False).hexdigest()


def _relations(project: Project, places: Mapping[str, str]) -> dict[str, str]:
    """Places by what compiled SQL calls the tables."""
    known = {t.name.lower(): t.relation for t in project.tables.values()}
    known |= {m.name.lower(): m.relation for m in project.models.values()}
    return {known.get(name.lower(), name): place for name, place in places.items()}


def write(taken: Taken, folder: Path, name: str, root: str, again: bool = False) -> list[str]:
    """Write the pipeline folder, or anew what of it came from dbt; returns the files written.

    Raises ConfigError where files are in the way that didn't come from dbt.
    """
    files = _replace(taken.adoption, folder) if again else adopt.write(taken.adoption, folder, name, root)
    place = Location.of(load_folder(folder).root)
    # A view is published under its name in lower case, see `ivm.trace.store.Layout.table`.
    known = {
        id_: {"table": table_ref((place / d.view.lower()).url), "md5": d.md5, "under": dict(d.under)}
        for id_, d in taken.declared.items()
    }
    if known:
        with writing(folder):
            (folder / VARS).write_text(json.dumps({"ivm_views": known}, indent=2) + "\n", encoding="utf-8")
        files.append(str(folder / VARS))
    return files


def _replace(adoption: Adoption, folder: Path) -> list[str]:
    """Write views and checks anew. pipeline.yml is its owner's: raises ConfigError where it lacks a source."""
    owned, sources = folder / "pipeline.yml", {s.name.lower(): s.location for s in load_folder(folder).sources}
    if clash := next((v for v in adoption.views if v.lower() in sources), None):
        raise ConfigError(
            f"{owned} has a source {clash}, and the project a model or a test that is called so.",
            "Rename the source there (its place says which one it is), and repeat this.",
        )
    lacking = [t for t in adoption.tables if not same_place(t.location, sources.get(t.name.lower(), ""))]
    if lacking:
        first = lacking[0]
        entry = f"{first.name}: {{{'path' if is_path(first.location) else 'table'}: {first.location}}}"
        raise ConfigError(
            f"{owned} has no source {', '.join(t.name for t in lacking)}, which the views read now: "
            f"none lies at {first.location}, as {first.written} does.",
            f"Add it there (`{entry}`); or, if a source that is there stands for it, give that this place, or say "
            f"with --table {first.written}=PLACE where it lies. Then repeat this.",
        )
    files = made_files(adoption)
    there = [f for f in (*(folder / "views").glob("*.sql"), folder / "checks.yml") if f.exists()]
    old = {str(f.relative_to(folder)) for f in there if read_text(f).startswith((MARK, HEADING))}
    if own := sorted({str(f.relative_to(folder)) for f in there} & set(files) - old):
        raise ConfigError(
            f"{folder / own[0]} didn't come from dbt, and is in the way.", "Move or rename it: it would be lost."
        )
    with writing(folder):
        for gone in old - set(files):
            (folder / gone).unlink()
        for file, text in files.items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    return [str(folder / f) for f in files]

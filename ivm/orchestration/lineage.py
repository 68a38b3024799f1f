"""What a publishing task read and made, for OpenLineage: by table, and by column where the view's program knows it.

    inputs     the sources and views that a view reads, at the versions that it has read
    outputs    the view's table: its columns, version, rows, and of which columns of the inputs each is made

The events are made here as plain data, and become the client's classes in `told` alone. START, COMPLETE and FAIL of a
task are the provider's own; what is made here is its RUNNING event, by the provider's public function. Where the
provider isn't installed, or is switched off, nothing is done; and nothing that goes wrong here fails a task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ivm.names import is_path

if TYPE_CHECKING:
    from ivm.plan.nodes import Program
    from ivm.refresh.context import Context
    from ivm.refresh.records import Cursor, Manifest, UnitState

#: A dataset: namespace, name, and its facets by their name in OpenLineage, each as the client's class takes it.
Dataset = dict[str, Any]
#: The client's class of each facet, in `openlineage.client.facet_v2`.
_CLASSES = {
    "schema": ("schema_dataset", "SchemaDatasetFacet"),
    "version": ("dataset_version_dataset", "DatasetVersionDatasetFacet"),
    "columnLineage": ("column_lineage_dataset", "ColumnLineageDatasetFacet"),
    "outputStatistics": ("output_statistics_output_dataset", "OutputStatisticsOutputDatasetFacet"),
}


def named(place: str) -> Dataset:
    """A table by OpenLineage's naming: a folder in the namespace `file`, an object store's by its bucket.

    >>> named("/lake/sales/revenue"), named("s3://lake/sales/revenue")
    ({'namespace': 'file', 'name': '/lake/sales/revenue'}, {'namespace': 's3://lake', 'name': 'sales/revenue'})
    """
    scheme, apart, rest = place.partition("://")
    if not apart or scheme == "file":
        return {"namespace": "file", "name": rest if apart else place}
    store, _, key = rest.partition("/")
    return {"namespace": f"{'s3' if scheme == 's3a' else scheme}://{store}", "name": key}


def datasets(context: Context, views: Iterable[str]) -> tuple[list[Dataset], list[Dataset]]:
    """The inputs and outputs of views as they are published, each once; only the log and the kept programs are read.

    Sources that are named in a catalog are left out: where they lie is not known here.
    """
    manifest = context.log.manifest()
    inputs: dict[tuple[str, str], Dataset] = {}
    outputs = []
    for view in (v.lower() for v in views):
        if view not in manifest.units:
            continue
        state = manifest.units[view]
        program = _program(context, view, state)
        read = _read(context, manifest, view, program)
        inputs |= {(d["namespace"], d["name"]): d for d in read.values()}
        outputs.append(_output(context, view, state, program, read))
    made = {(d["namespace"], d["name"]) for d in outputs}
    return [d for key, d in inputs.items() if key not in made], outputs


def _program(context: Context, view: str, state: UnitState) -> Program | None:
    """The program that the published state was made by, as it is kept; None where it isn't."""
    from ivm.refresh.programs import kept

    found = kept(context.layout.programs, context.views[view].name)
    return next((k.program for k in found if state.definition in (k.definitions or ())), None)


def _read(context: Context, manifest: Manifest, view: str, program: Program | None) -> dict[str, Dataset]:
    """By relation, what the units of a view have read."""
    units = [u.name for u in program.units] if program is not None else []
    cursors: dict[str, Cursor] = {}
    for unit in dict.fromkeys([*units, view]):
        cursors |= manifest.units[unit].cursors if unit in manifest.units else {}
    found = {}
    for relation, cursor in sorted(cursors.items()):
        if relation in context.views:
            place = context.layout.table(relation, True)
        elif relation in context.sources and is_path(context.sources[relation].location):
            place = context.sources[relation].location
        else:
            continue
        found[relation] = {**named(place), "facets": _version(cursor.version)}
    return found


def _output(
    context: Context, view: str, state: UnitState, program: Program | None, read: Mapping[str, Dataset]
) -> Dataset:
    from ivm.sql.lineage import program_lineage

    fields = [{"name": f["name"], "type": _type(f["type"])} for f in json.loads(state.schema)["fields"]]
    facets: dict[str, Any] = {"schema": {"fields": fields}, **_version(state.version)}
    columns = {
        column: [
            {"namespace": read[r]["namespace"], "name": read[r]["name"], "field": c}
            for r, c in sorted(origins)
            if r in read
        ]
        for column, origins in (program_lineage(program).items() if program is not None else ())
    }
    if any(columns.values()):
        facets["columnLineage"] = {"fields": {c: {"inputFields": made} for c, made in columns.items() if made}}
    table = named(context.layout.table(view, True))
    return {**table, "facets": facets, "outputFacets": {"outputStatistics": {"rowCount": state.rows}}}


def _version(version: int | None) -> dict[str, Any]:
    return {} if version is None else {"version": {"datasetVersion": str(version)}}


def _type(type_: Any) -> str:
    """A type of Delta's schema as text; of a nested one only what it is.

    >>> _type("long"), _type({"type": "array", "elementType": "long", "containsNull": True})
    ('long', 'array')
    """
    return type_ if isinstance(type_, str) else str(type_["type"])


def emit(folder: str, views: Iterable[str]) -> None:
    """Tell OpenLineage of the views that the running task has published, where its provider is there and active."""
    try:
        from airflow.providers.openlineage.api import emit_dataset_lineage, is_openlineage_active
    except ImportError:
        return
    try:
        if not is_openlineage_active():
            return
        from ivm.declarations import declared

        inputs, outputs = datasets(declared(folder), views)
        if outputs:
            emit_dataset_lineage(inputs=told("InputDataset", inputs), outputs=told("OutputDataset", outputs))
    except Exception as error:  # noqa: BLE001 - what is published is published, whoever hears of it
        print(f"OpenLineage is not told: {type(error).__name__}: {error}")


def told(kind: str, made: Iterable[Dataset]) -> list[Any]:
    """Datasets as the client's classes. Raises ImportError where it isn't installed."""
    from openlineage.client import event_v2

    return [getattr(event_v2, kind)(**{k: _facets(v) if "acets" in k else v for k, v in d.items()}) for d in made]


def _facets(facets: Mapping[str, Any]) -> dict[str, Any]:
    from openlineage.client import facet_v2

    found = {}
    for name, values in facets.items():
        module, class_ = _CLASSES[name]
        found[name] = getattr(getattr(facet_v2, module), class_)(**_values(facet_v2, name, values))
    return found


def _values(facet_v2: Any, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a facet's class: fields are classes of their own."""
    if name == "schema":
        made = [facet_v2.schema_dataset.SchemaDatasetFacetFields(**f) for f in values["fields"]]
        return {"fields": made}
    if name == "columnLineage":
        module = facet_v2.column_lineage_dataset
        fields = {
            c: module.Fields(inputFields=[module.InputField(**i) for i in of["inputFields"]])
            for c, of in values["fields"].items()
        }
        return {"fields": fields}
    return dict(values)

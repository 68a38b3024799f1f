"""The dbt project of the tests, `tests/dbt_shop`, and its manifest as real dbt wrote it, cut to what is read of it.

python -m tests.dbt_project TARGET     take over what `dbt compile --full-refresh` wrote in a copy's target folder
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from ivm.dbt.manifest import reached
from ivm.feed.history import FEED
from ivm.jars import delta_jars
from ivm.session import DELTA_CONF, LOCAL_CONF

SHOP = Path(__file__).resolve().parent / "dbt_shop"
MANIFEST = SHOP / "target" / "manifest.json"
PACKAGE = SHOP.parents[1] / "infra" / "dbt"
_META = ("dbt_schema_version", "dbt_version", "invocation_id", "project_name", "adapter_type")
_NODE = (
    "unique_id", "resource_type", "name", "alias", "version", "language", "relation_name", "raw_code", "compiled_code",
    "test_metadata", "column_name", "attached_node",
)  # fmt: skip
_CONFIG = (
    "materialized", "full_refresh", "pre-hook", "post-hook", "severity", "where", "limit", "fail_calc", "warn_if",
    "error_if",
)  # fmt: skip
_SOURCE = ("unique_id", "resource_type", "name", "source_name", "relation_name")

#: The tables that the models read; `regions` is the seed.
TABLES = {
    "orders": {
        "id": [1, 2, 3, 4],
        "customer": ["ann", "ann", "bob", "test1"],
        "region": ["north", "south", "north", "north"],
        "placed_on": ["d1", "d1", "d2", "d2"],
        "status": ["open", "paid", "open", "open"],
    },
    "order_lines": {
        "order_id": [1, 1, 2, 3, 4],
        "number": [1, 2, 1, 1, 1],
        "quantity": [1, 2, 3, 1, 9],
        "price": [9, 5, 4, 7, 9],
    },
    "regions": {"region": ["north", "south"], "manager": ["nora", "saul"]},
}


def write_tables(lake: Path, *names: str) -> Path:
    """The tables named, with change feeds, below a folder."""
    for name in names:
        write_deltalake(str(lake / name), pa.table(TABLES[name]), configuration={FEED: "true"})
    return lake


def put(lake: Path, table: str, where: str, *rows: tuple[Any, ...]) -> None:
    """Take rows away, and put others there."""
    there = DeltaTable(str(lake / table))
    there.delete(where)
    new = [dict(zip(TABLES[table], row, strict=True)) for row in rows]
    write_deltalake(str(lake / table), pa.Table.from_pylist(new, there.to_pyarrow_table().schema), mode="append")


class Dbt:
    """The real dbt in a copy of the project, in a process with a Spark of its own.

    dbt and dbt-spark may be in an environment without pyspark; they get this one's. A context manager.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.project = program, folder / "tests" / SHOP.name
        shutil.copytree(SHOP, self.project, ignore=shutil.ignore_patterns("target"))
        shutil.copytree(PACKAGE, folder / "infra" / PACKAGE.name)
        self.warehouse = folder / "warehouse"
        conf, libraries = folder / "conf", folder / "libraries"
        conf.mkdir()
        libraries.mkdir()
        import py4j  # type: ignore[import-untyped]
        import pyspark

        for module in (py4j, pyspark):
            (libraries / module.__name__).symlink_to(Path(module.__file__ or "").parent)
        settings = {
            **DELTA_CONF,
            **LOCAL_CONF,
            "spark.driver.memory": "1g",
            "spark.jars": ",".join(delta_jars()),
            "spark.sql.warehouse.dir": str(self.warehouse),
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        }
        (conf / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in settings.items()))
        self.environment = os.environ | {
            "SPARK_CONF_DIR": str(conf),
            "PYTHONPATH": str(libraries),
            "DBT_PROFILES_DIR": str(self.project),
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        }

    def __enter__(self) -> Dbt:
        """Start the process that runs the commands, by the Python that has dbt."""
        self.process = subprocess.Popen(
            # Safe path (-P): dbt takes modules of the script's folder called dbt_... for plugins, and imports them.
            [str(Path(self.program).parent / "python"), "-P", str(Path(__file__).with_name("dbt_served.py"))],
            cwd=self.project, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=60)

    def __call__(self, *arguments: str, marts: str = "table", ok: bool = True) -> str:
        """What a command says; it must succeed, or fail, as `ok` says."""
        return "\n".join(self._asked(arguments, marts, ok)["said"])

    def rows(self, relation: str) -> list[tuple[str, ...]]:
        """The rows of a relation, as dbt shows them."""
        asked = ("show", "--inline", f"select * from {relation}", "--limit", "100")
        return sorted(map(tuple, self._asked(asked, "table", True)["rows"]))

    def _asked(self, arguments: tuple[str, ...], marts: str, ok: bool) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"arguments": arguments, "marts": marts}) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"ok": null, "said": ["it ended"]}')
        assert answer["ok"] == ok, f"{arguments}: {answer['said'][-30:]}"
        return answer

    @property
    def manifest(self) -> Path:
        return self.project / "target" / "manifest.json"


def trimmed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with what `ivm.dbt.manifest` reads of this project; macros are kept where a node calls them."""
    calls = {m: d["depends_on"]["macros"] for m, d in manifest["macros"].items()}
    called = reached((m for n in manifest["nodes"].values() for m in n["depends_on"]["macros"]), calls)
    return {
        "metadata": _of(manifest["metadata"], _META),
        "nodes": {
            i: _of(n, _NODE) | {"config": _of(n["config"], _CONFIG), "depends_on": n["depends_on"]}
            for i, n in sorted(manifest["nodes"].items())
        },
        "sources": {i: _of(s, _SOURCE) for i, s in sorted(manifest["sources"].items())},
        "macros": {m: {"depends_on": {"macros": calls[m]}} for m in sorted(called)},
        "disabled": {i: [] for i in sorted(manifest["disabled"])},
    }


def _of(data: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {k: data[k] for k in keys if k in data}


def _take_over(target: Path) -> None:
    run = json.loads((target / "run_results.json").read_text())
    results = {
        "metadata": _of(run["metadata"], ("dbt_schema_version", "dbt_version", "invocation_id")),
        "args": _of(run["args"], ("which", "full_refresh", "invocation_command")),
    }
    for name, data in (
        ("manifest.json", trimmed(json.loads((target / "manifest.json").read_text()))),
        ("run_results.json", results),
    ):
        (MANIFEST.parent / name).write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    MANIFEST.parent.mkdir(exist_ok=True)
    _take_over(Path(sys.argv[1]))

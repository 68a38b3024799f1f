"""What a release is made of: declared dependencies, and an SBOM of the lock."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from ivm.session import DELTA_CONF

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Imported where they are there, by those who brought them; what these import belongs to them.
BROUGHT = {
    "airflow": "apache-airflow",
    "click": "typer",
    "fastapi": "apache-airflow",
    "numpy": "pandas",
    "openlineage": "apache-airflow",
    "psutil": "apache-airflow",
}


def plain(requirement: str) -> str:
    """The name of a requirement, as indexes write it."""
    return re.split(r"[\[<>=!~ ;]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def test_all_that_is_imported_is_declared():
    listed = [*PROJECT["dependencies"], *(r for rs in PROJECT["optional-dependencies"].values() for r in rs)]
    declared = {plain(r) for r in listed}
    distributions = packages_distributions()
    found = {}
    for file in (ROOT / "ivm").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for top in {n.split(".")[0] for n in names} - {"ivm", "__future__"} - set(sys.stdlib_module_names):
                found.setdefault(top, file.relative_to(ROOT))
    assert {"sqlglot", "pyspark", "airflow"} <= set(found)
    for top, file in found.items():
        mine = {plain(d) for d in distributions.get(top, [top])} | {BROUGHT.get(top, "")}
        assert mine & declared, f"{file} imports {top}, which no dependency brings"


def test_the_sbom_names_what_is_locked(tmp_path):
    pytest.importorskip("cyclonedx_py", reason="the group dev is not installed as it is locked")
    whole = (ROOT / "infra" / "requirements.lock").read_text()
    lock, made = tmp_path / "requirements.lock", tmp_path / "sbom.json"
    lock.write_text("".join(re.findall(r"^\S.*\n(?:    .*\n)+", whole, re.M)[:20]))  # the whole takes ten seconds
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(lock), "--pyproject", "pyproject.toml"]
    done = subprocess.run([*command, "--mc-type", "library", "-o", str(made)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sbom = json.loads(made.read_text())
    assert sbom["metadata"]["component"]["name"] == PROJECT["name"]
    locked = set(re.findall(r"^([\w.-]+)==([^ ;\\]+)", lock.read_text(), re.M))
    assert {(c["name"], c["version"]) for c in sbom["components"]} == locked
    assert all(c["externalReferences"][0]["hashes"] for c in sbom["components"])


def test_the_settings_for_clusters_are_those_of_a_session_that_ivm_starts():
    found = {
        re.sub(r":? +", " ", line.strip())
        for file in ("standalone/spark-defaults.conf", "kubernetes/refresh.yaml")
        for line in (ROOT / "infra" / file).read_text().splitlines()
        if re.match(r" *spark\.sql\.(extensions|catalog)", line)
    }
    assert found == {f"{key} {value}" for key, value in DELTA_CONF.items()}

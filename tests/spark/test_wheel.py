"""The wheel in an environment of its own: what a user has after `pip install`, from `ivm init` to a refreshed view.

Nothing is downloaded: its dependencies are those of this environment, by a path file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
TABLE = """
import ivm, pyarrow as pa
from deltalake import write_deltalake
rows = pa.table({"id": [1, 2, 3], "customer": ["a", "a", "b"], "amount": [1, 2, 3]})
write_deltalake("shop/sources/orders", rows, configuration={"delta.enableChangeDataFeed": "true"})
print(ivm.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(ROOT, sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), ".")
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder of an environment's programs."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = str(folder / "bin" / "python")
    # Before the path file is there, by which pip would take this environment's ivm for the one that is asked for.
    run(folder, sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "shared.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def run(folder, *command):
    """What a command prints; Python finds nothing of this checkout by itself."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_CONNECT_MODE_ENABLED")}
    done = subprocess.run([*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_wheel_has_the_package_and_no_more(wheel):
    inside = zipfile.ZipFile(wheel)
    names = inside.namelist()
    assert {"ivm/py.typed", "ivm/ui/style.css"} <= set(names)
    (told,) = (inside.read(n).decode() for n in names if n.endswith("entry_points.txt"))
    assert "[airflow.plugins]\nivm = ivm.orchestration.plugin:IvmPlugin\n" in told
    assert {n.split("/")[0] for n in names} == {"ivm", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}


def test_from_nothing_to_a_view(installed, tmp_path):
    assert "next: edit them" in run(tmp_path, installed / "ivm", "init", "shop")
    where = run(tmp_path, installed / "python", "-c", TABLE)
    assert Path(where.strip()).is_relative_to(installed.parent), "it is the wheel's own code that runs"
    report = json.loads(run(tmp_path, installed / "ivm", "refresh", "-p", "shop", "--json"))
    assert report["views"]["customer_totals"]["strategy"] == "full"
    assert report["views"]["customer_totals"]["rows_out"] == 2
    status = json.loads(run(tmp_path, installed / "ivm", "status", "-p", "shop", "--json"))
    assert (status["epoch"], status["views"]["customer_totals"]["rows"]) == (1, 2)

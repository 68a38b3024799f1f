"""The notebooks of docs/notebooks are run, cell by cell, and print what is stored in them.

python -m tests.spark.test_notebooks     store what they print now
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def executed(notebook):
    """A copy with today's outputs; the kernel is reached by sockets in a folder, not by TCP."""
    made = nbformat.from_dict(notebook)
    NotebookClient(made, timeout=600, km=AsyncKernelManager(transport="ipc"), record_timing=False).execute()
    for cell in made.cells:
        if cell.cell_type == "code":  # Spark's log is no output
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    return made


def shown(notebook):
    """By cell what it prints and gives."""
    return [
        [o.get("text") or o.get("data", {}).get("text/plain") for o in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=[pytest.mark.spark] * (p.stem == "first_view")) for p in NOTEBOOKS]
)
def test_a_notebook_prints_what_it_shows(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    stored = shown(notebook)
    assert any(stored)
    assert shown(executed(notebook)) == stored


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        nbformat.write(executed(nbformat.read(notebook, as_version=4)), notebook)

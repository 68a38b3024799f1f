"""Arrow is told that there is no pandas, and finds it where it is asked for it."""

from __future__ import annotations

import subprocess
import sys

from ivm.cli.template import write_template

#: What a fresh interpreter does, and what it then says.
SCRIPT = """
import sys
{before}
from ivm.without_pandas import tell_arrow

tell_arrow()
tell_arrow()
import pyarrow as pa

rows = pa.table({{"a": [1, 2, None], "b": pa.array([0.5, float("nan"), None])}})
print("pandas" in sys.modules, rows["b"].null_count, pa.scalar(3).as_py())
frame = rows.to_pandas()
print("pandas" in sys.modules, frame["a"].isna().sum(), pa.array(frame["b"]).null_count, pa.table(frame).num_rows)
"""


LOADED = """
import contextlib, pathlib, sys
from ivm.cli.options import load
from ivm.errors import SourceError

with contextlib.suppress(SourceError):  # the template's sources are not there
    load(pathlib.Path(sys.argv[1]))
import pyarrow as pa

pa.array([1])
print("pandas" in sys.modules)
"""


def _said(script: str, *arguments: str) -> list[str]:
    found = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return found.stdout.splitlines()


def test_it_is_not_imported_before_it_is_asked_for():
    assert _said(SCRIPT.format(before="")) == ["False 1 3", "True 1 2 3"]


def test_where_it_is_there_already_nothing_happens():
    assert _said(SCRIPT.format(before="import pandas")) == ["True 1 3", "True 1 2 3"]


def test_a_command_needs_none(tmp_path):
    write_template(tmp_path / "shop")
    assert _said(LOADED, str(tmp_path / "shop")) == ["False"]

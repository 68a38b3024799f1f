"""The allocators of delta-rs and DuckDB keep what is freed: their variables are set before they are loaded."""

import os
import subprocess
import sys

import pytest

from ivm.allocators import KEPT_MS, VARIABLES

#: By variable a program that loads the allocator which reads it.
LOADED_BY = dict(zip(VARIABLES, ("import deltalake", "import duckdb; duckdb.sql('SELECT 1').fetchall()"), strict=True))


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of Python's in a process that has none of the variables but these."""
    others = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.run(
        [sys.executable, "-c", program], env=others | environment, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_variable_is_set_unless_it_is(variable):
    told = f"import ivm, os; print(os.environ['{variable}'])"
    assert f"dirty_decay_ms:{KEPT_MS}," in run(told).stdout
    assert run(told, **{variable: "dirty_decay_ms:0"}).stdout.strip() == "dirty_decay_ms:0"


@pytest.mark.skipif(
    sys.platform != "linux", reason="which allocator the wheels for other systems bring was not looked at"
)
@pytest.mark.parametrize("variable", VARIABLES)
def test_the_library_s_allocator_reads_it(variable):
    """jemalloc complains of an option that it doesn't know."""
    found = run(f"import ivm; {LOADED_BY[variable]}", **{variable: "no_such_option:1"})
    assert "no_such_option" in found.stderr


def test_the_allocators_know_the_options():
    found = run("import ivm; " + "; ".join(LOADED_BY.values()))
    assert "malloc" not in found.stderr.lower()

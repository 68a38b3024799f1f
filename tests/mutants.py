"""Break each delta rule once, on purpose, and see that the pure tests notice: python tests/mutants.py [number ...]

A mutant is a text replacement in a copy of the package; the tests run against the copy. Survivors are printed, and
the exit code is their number.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ("tests/pure/test_algebra.py", "tests/pure/test_generated.py", "tests/pure/test_compile.py", "tests/pure/test_keys.py")

#: (what is broken, file, text, replacement)
MUTANTS = (
    ("a difference adds both states", "ivm/rewrite/statements.py", "((State.NEW, 1), (State.OLD, -1))", "((State.NEW, 1), (State.OLD, 1))"),
    ("a difference reads the new state twice", "ivm/rewrite/statements.py", "((State.NEW, 1), (State.OLD, -1))", "((State.NEW, 1), (State.NEW, -1))"),
    ("a changed dependent is taken for unchanged", "ivm/rewrite/statements.py", "if any(reads.changed(leaf.relation) for leaf in branch.dependents):", "if False:"),
    ("the signed join has the wrong sign", "ivm/rewrite/statements.py", 'f"{new} - {old} AS {ident(WEIGHT)}"', 'f"{old} - {new} AS {ident(WEIGHT)}"'),
    ("the telescoping sum takes old for new", "ivm/rewrite/delta_join.py", "State.NEW if j < i else State.OLD", "State.OLD"),
    ("a term is dropped", "ivm/rewrite/delta_join.py", "if leaf.relation not in changed:", "if leaf.relation not in changed or i == 1:"),
    ("deleted rows add to sums", "ivm/rewrite/accumulators.py", "THEN -{wide} ELSE", "THEN {wide} ELSE"),
    ("a sum counts NULLs", "ivm/rewrite/accumulators.py", "COALESCE(SUM(CASE WHEN {x} IS NOT NULL THEN {w} END), 0)", "COALESCE(SUM({w}), 0)"),
    ("the old rows of groups stay", "ivm/rewrite/statements.py", "CAST(-1 AS int) AS {ident(WEIGHT)}\\nFROM {stored} AS s", "CAST(0 AS int) AS {ident(WEIGHT)}\\nFROM {stored} AS s"),
    ("groups are evaluated on the old input", "ivm/rewrite/statements.py", "level[leaf.alias].level, State.NEW)", "level[leaf.alias].level, State.OLD)"),
    ("NULL keys are lost", "ivm/rewrite/statements.py", 'on_old = " AND ".join(f"s.{ident(str(o))} <=> k', 'on_old = " AND ".join(f"s.{ident(str(o))} = k'),
    ("zero weights stay", "ivm/rewrite/statements.py", "HAVING SUM({ident(WEIGHT)}) {having}", "HAVING 1 = 1"),
    ("NOT IN forgets NULLs", "ivm/sql/reduce.py", "exp.GT(this=every.copy(), expression=known)", "exp.LT(this=every.copy(), expression=known)"),
    ("NOT IN of nothing is false", "ivm/sql/subqueries.py", "exp.or_(exp.not_(not_empty), exp.Paren(this=known))", "exp.Paren(this=known)"),
    ("FULL JOIN forgets the right side's lone rows", "ivm/sql/compiler.py", 'if kind == "FULL":', 'if kind == "NEVER":'),
    ("EXCEPT is INTERSECT", "ivm/sql/reduce.py", "(exp.EQ if minus else exp.GT)", "(exp.GT if minus else exp.GT)"),
    ("windows forget a partition key", "ivm/sql/reduce.py", "if all(t in p for p in partitions)]", "if all(t in p for p in partitions)][:0] + list(partitions[0])[:1]"),
    ("a preserved side is restricted by ON", "ivm/sql/freeze.py", "known = mine if optional else mine |", "known = mine |"),
    ("a negated comparison becomes a filter", "ivm/sql/filters.py", 'if key not in ("this",', 'if key not in ("negate", "this",'),
)  # fmt: skip


def survives(mutant: tuple[str, str, str, str]) -> bool:
    """Whether the tests pass with a mutant in place."""
    _, file, text, replacement = mutant
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("ivm", "tests", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        source = (copy / file).read_text()
        assert source.count(text) >= 1, f"{file} has no {text!r} any more"
        (copy / file).write_text(source.replace(text, replacement, 1))
        environment = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS], cwd=folder, env=environment, capture_output=True, check=False
        )
        return done.returncode == 0


def main() -> int:
    chosen = [MUTANTS[int(n)] for n in sys.argv[1:]] or list(MUTANTS)
    survivors = 0
    for number, mutant in enumerate(chosen):
        alive = survives(mutant)
        survivors += alive
        print(f"{number:2} {'SURVIVES' if alive else 'killed  '} {mutant[0]}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} killed")
    return survivors


if __name__ == "__main__":
    sys.exit(main())

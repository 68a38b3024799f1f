"""Break each rule once, on purpose, and see that the tests notice.

    python -m tests.mutants [number ...]              delta rules, against the pure tests
    python -m tests.mutants --protocol [number ...]   the refresh protocol, against its tests with DuckDB and Spark
                                                      (minutes each)
    python -m tests.mutants --portable [number ...]   the list of what is portable, against Spark

A mutant is a text replacement in a copy of the package; the tests run against the copy. Survivors are printed, and
the exit code is their number. The tests are run without a mutant first: what fails then kills nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
Mutant = tuple[str, str, str, str]
DELTA_TESTS = (
    "tests/pure/test_algebra.py",
    "tests/pure/test_generated.py",
    "tests/pure/test_compile.py",
    "tests/pure/test_keys.py",
    "tests/pure/test_temporal.py",
    "tests/pure/test_lookup.py",
    "tests/pure/test_parquet_scan.py",
    "tests/pure/test_touched.py",
    "tests/pure/test_weighted.py",
    "tests/pure/test_own_slices.py",
)
#: Those without a JVM first: most mutants end there.
PROTOCOL_TESTS = (
    "tests/pure/test_paying.py",
    "tests/pure/test_handles.py",
    "tests/pure/test_recent.py",
    "tests/pure/test_whole.py",
    "tests/pure/test_growing.py",
    "tests/pure/test_layout.py",
    "tests/pure/test_table.py",
    "tests/pure/test_heads.py",
    "tests/pure/test_fence.py",
    "tests/pure/test_tasks.py",
    "tests/pure/test_damaged_compaction.py",
    "tests/pure/test_damage.py",
    "tests/pure/test_held.py",
    "tests/pure/test_random_faults.py",
    "tests/pure/test_faults.py",
    "tests/spark/test_protocol.py",
    "tests/spark/test_repair.py",
    "tests/spark/test_kills.py",
)

NONE: Mutant = ("nothing is broken", "pyproject.toml", "[project]", "[project]")
#: (what is broken, file, text, replacement)
DELTA: tuple[Mutant, ...] = (
    ("a difference adds both states", "ivm/rewrite/statements.py",
     "((State.NEW, 1), (State.OLD, -1))", "((State.NEW, 1), (State.OLD, 1))"),
    ("rows that differ in a column that is read are taken for alike", "ivm/refresh/inputs.py",
     "mine = [c for c in delta.column_names if c in columns]",
     "mine = [c for c in delta.column_names if c in columns][:1]"),
    ("rows that a unit can't tell apart count as changed", "ivm/feed/datasets.py",
     "return self.inputs[relation].delta is not None and relation not in self._alike",
     "return self.inputs[relation].delta is not None"),
    ("rows that a delta brought are in both states", "ivm/feed/arrow_datasets.py",
     "kept = pc.and_(mask, self._unchanged(relation, rows)) if unchanged else mask", "kept = mask"),
    ("all copies of a row leave where one does", "ivm/zset/weighted.py",
     "is_mine & (np.arange(len(place)) - first[group] < many[group])", "is_mine & (many[group] > 0)"),
    ("numbers with the hash of a wanted one are taken for it", "ivm/zset/members.py",
     "    there[some] = pc.is_in(pa.array(mine[some]), pa.array(theirs)).to_numpy(zero_copy_only=False)\n", ""),
    ("rows without a partner are counted apart", "ivm/compile/units/unpadded.py",
     "if not called or any(call.argument is None for call in called):", "if not called:"),
    ("keys and filters of padded rows are forgotten", "ivm/compile/units/unpadded.py",
     "if right is None or any(_reads(tree, right.alias) for tree in apart):", "if right is None:"),
    ("what is made of a missing partner is forgotten", "ivm/compile/units/unpadded.py",
     "if not all(_is_null(e, right.alias) for _, e in block.outs[keys:]):", "if False:"),
    ("a difference reads the new state twice", "ivm/rewrite/statements.py",
     "((State.NEW, 1), (State.OLD, -1))", "((State.NEW, 1), (State.NEW, -1))"),
    ("a changed dependent is taken for unchanged", "ivm/rewrite/statements.py",
     "if any(reads.changed(leaf.relation) for leaf in branch.dependents):", "if False:"),
    ("the signed join has the wrong sign", "ivm/rewrite/statements.py",
     'f"{new} - {old} AS {ident(WEIGHT)}"', 'f"{old} - {new} AS {ident(WEIGHT)}"'),
    ("the telescoping sum takes old for new", "ivm/rewrite/delta_join.py",
     "            else State.NEW\n            if j < i\n            else State.OLD\n", "            else State.OLD\n"),
    ("a term is dropped", "ivm/rewrite/delta_join.py",
     "if leaf.relation not in changed:", "if leaf.relation not in changed or i == 1:"),
    ("deleted rows add to sums", "ivm/rewrite/accumulators.py", "THEN -{value} ELSE", "THEN {value} ELSE"),
    ("deleted rows add to wide sums", "ivm/rewrite/accumulators.py",
     '_exactly(self, came, "-", went)', '_exactly(self, came, "+", went)'),
    ("a sum counts NULLs", "ivm/rewrite/accumulators.py",
     "COALESCE(SUM(CASE WHEN {x} IS NOT NULL THEN {w} END), 0)", "COALESCE(SUM({w}), 0)"),
    ("the old rows of groups stay", "ivm/rewrite/statements.py",
     "CAST(-1 AS int) AS {ident(WEIGHT)}\\nFROM {stored} AS s",
     "CAST(0 AS int) AS {ident(WEIGHT)}\\nFROM {stored} AS s"),
    ("groups are evaluated on the old input", "ivm/rewrite/statements.py",
     "level[leaf.alias].level, State.NEW)", "level[leaf.alias].level, State.OLD)"),
    ("NULL keys are lost", "ivm/rewrite/statements.py",
     'on_old = " AND ".join(f"s.{ident(str(o))} <=> k', 'on_old = " AND ".join(f"s.{ident(str(o))} = k'),
    ("zero weights stay", "ivm/rewrite/statements.py", "HAVING SUM({ident(WEIGHT)}) {having}", "HAVING 1 = 1"),
    ("NOT IN forgets NULLs", "ivm/compile/units/one_row.py",
     "exp.GT(this=every.copy(), expression=known)", "exp.LT(this=every.copy(), expression=known)"),
    ("NOT IN of nothing is false", "ivm/compile/queries/subqueries.py",
     "exp.or_(exp.not_(not_empty), exp.Paren(this=known))", "exp.Paren(this=known)"),
    ("FULL JOIN forgets the right side's lone rows", "ivm/compile/queries/from_clause.py",
     'if kind == "FULL":\n            more =', 'if kind == "NEVER":\n            more ='),
    ("EXCEPT is INTERSECT", "ivm/compile/units/intersection.py",
     "(exp.EQ if minus else exp.GT)", "(exp.GT if minus else exp.GT)"),
    ("windows forget a partition key", "ivm/compile/units/windowed.py",
     "if all(t in p for p in partitions)]", "if all(t in p for p in partitions)][:0] + list(partitions[0])[:1]"),
    ("a preserved side is restricted by ON", "ivm/sql/freeze.py",
     "known = mine if optional else mine |", "known = mine |"),
    ("a negated comparison becomes a filter", "ivm/sql/filters.py",
     'if key not in ("this",', 'if key not in ("negate", "this",'),
    ("a clock keeps its old value", "ivm/refresh/instants.py",
     "((upto, 1), (since, -1))", "((since, 1), (since, -1))"),
    ("a clock's old value isn't taken back", "ivm/refresh/instants.py",
     "((upto, 1), (since, -1))", "((upto, 1), (upto, 1))"),
    ("a day that is sharp is taken for one that isn't", "ivm/sql/temporal.py",
     "if kind in (exp.GT, exp.LTE):", "if kind in (exp.GTE, exp.LT):"),
    ("a clock of the day is due at once", "ivm/refresh/instants.py",
     "return later is None or later <= as_time(max(since, upto))", "return True"),
    ("a range forgets its first value", "ivm/lake/keyed.py",
     'return f"{column} BETWEEN {one} AND {other}"', 'return f"{column} = {other}"'),
    ("DuckDB's reader forgets a range's first value", "ivm/lake/parquet_scan.py",
     'BETWEEN DATE {native_literal(low.isoformat())} AND', 'BETWEEN DATE {native_literal(high.isoformat())} AND'),
    ("DuckDB's reader shows what deletion vectors hide", "ivm/lake/parquet_scan.py",
     "if hidden.any() else shown", "if False else shown"),
    ("DuckDB's reader leaves out a file that may hold a match", "ivm/lake/parquet_scan.py",
     'to_numpy(), side="right")', 'to_numpy(), side="left")'),
)  # fmt: skip


#: Steps left out, steps in another order, filters and comparisons that are lost.
PROTOCOL: tuple[Mutant, ...] = (
    ("following a relation costs nothing", "ivm/planner/arranging.py",
     "account.balance + gain - upkeep", "account.balance + gain"),
    ("a refresh waits for an arrangement that nobody asked for", "ivm/refresh/arrangements.py",
     "    if not asked.views:\n", "    if False:\n"),
    ("an arrangement lacks a row of the delta that views read", "ivm/refresh/arrangements.py",
     "return known.select([*columns, WEIGHT])", "return known.select([*columns, WEIGHT]).slice(1)"),
    ("a merge is made twice", "ivm/lake/bags.py",
     "        return False\n    columns = [", "        pass\n    columns = ["),
    ("an append is made twice", "ivm/lake/native.py",
     "        return False\n    with committing(", "        pass\n    with committing("),
    ("that an epoch was checked is not recorded", "ivm/refresh/run.py",
     "not context.log.record_checked(plan.epoch,", "not (lambda *a: True)(plan.epoch,"),
    ("outcomes are not recorded with the verdict", "ivm/refresh/run.py",
     "json.dumps(detail), new)", "json.dumps(detail), ())"),
    ("batches of attempts that failed count", "ivm/times/ranges.py",
     'if ranges else "true"', 'if False else "true"'),
    ("all epochs' batches are merged", "ivm/trace/store.py",
     "batch = own(path).read(weighted.names, of_epoch(epoch))", "batch = own(path).read(weighted.names)"),
    ("a batch is recalled that the trace has no more", "ivm/trace/recent.py",
     " or head_of(path) != held.head", ""),
    ("a trace is known that has changed since", "ivm/table/whole.py",
     "if held is None or head_of(path) != held.head:", "if held is None:"),
    ("rows are added to those of another table", "ivm/table/whole.py",
     " and fingerprint(path, held.head.version) == held.head.fingerprint", ""),
    ("accumulators of attempts that failed count", "ivm/feed/datasets.py",
     "    if not within:\n        return rows\n", "    return rows\n"),
    ("what others appended to the log is overlooked", "ivm/table/growing.py",
     " and len(files) == len(self._files) + 1", ""),
    ("who writes takes a handle that somebody reads with", "ivm/lake/handles.py",
     "if handle is None or handle.lent:", "if handle is None:"),
    ("an abandoned epoch's batches stay", "ivm/trace/store.py",
     "        own(path).delete(", "        (lambda *a, **k: None)("),
    ("a reader takes its last epoch again", "ivm/trace/store.py",
     '{q(EPOCH)} > {after}', '{q(EPOCH)} >= {after}'),
    ("fingerprints are not compared", "ivm/lake/log.py", "if known and known != head.fingerprint:", "if False:"),
    ("everybody's commits are taken for ours", "ivm/lake/log.py",
     "    for action in actions:\n        info =",
     "    for action in actions:\n        return True\n        info ="),
    ("attempts write under one name", "ivm/refresh/apply.py",
     "self.attempt = secrets.token_hex(4)", 'self.attempt = "one"'),
    ("compaction drops what a reader has not read", "ivm/refresh/compact.py",
     "min([manifest.epoch - keep_epochs, manifest.units[unit].epoch, *readers])", "manifest.epoch - keep_epochs"),
    ("frontiers move without a commit", "ivm/refresh/compact.py", "    if changed:\n", "    if False:\n"),
    ("compaction sums batches that don't count", "ivm/refresh/compact.py",
     "{within(state.batches, epoch)}{grouped}", "true{grouped}"),
    ("compaction lists batches that it left as they were", "ivm/refresh/compact.py",
     "(_summed(unit) or not own(_sums(context, name, state)).exists())", "True"),
    ("cursors don't learn the versions that were published", "ivm/refresh/publish.py",
     "state = with_upstream_versions(units[outcome.unit], units)", "state = units[outcome.unit]"),
    ("cursors stay", "ivm/refresh/incremental.py",
     "cursors = {r: inputs.cursor(r) for r in unit.reads}\n    batches", "cursors = state.cursors\n    batches"),
    ("an open epoch is not resumed", "ivm/refresh/run.py",
     "    if open_epoch is not None:\n        plan =", "    if False:\n        plan ="),
    ("what reads a view that failed is published", "ivm/refresh/publish.py",
     "if views.get(r) in trouble), None)", "if views.get(r) in trouble and False), None)"),
    ("what reads a view that is held back is published", "ivm/refresh/run.py",
     "        for r in o.state.cursors\n        if r in held\n",
     "        for r in o.state.cursors\n        if False\n"),
    ("two refreshes run beside each other", "ivm/storage/lock.py",
     "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB"),
    ("leftovers stay", "ivm/trace/store.py", "                folder.drop()\n", "                pass\n"),
    ("an incremental failure is not followed by a rebuild", "ivm/refresh/planning.py",
     "if failure is not None and failure.incremental and", "if False and"),
    ("a released batch is looked for under its new epoch", "ivm/refresh/held.py",
     "stamp=o.stamp or held.epoch", "stamp=o.stamp"),
    ("damage is not looked for", "ivm/refresh/planning.py", "    if damaged:\n", "    if False:\n"),
    ("what was published and never committed is taken for right", "ivm/refresh/integrity.py",
     "elif what == TABLE and found.own:", "elif False:"),
)  # fmt: skip
#: (what is broken, file, text, replacement)
PORTABLE: tuple[Mutant, ...] = (
    ("wide decimals are negated", "ivm/portable/numbers.py", "types[0].digits <= 34", "types[0].digits <= 38"),
    (
        "a quotient is cut off",
        "ivm/portable/numbers.py",
        "THEN (2::HUGEINT * abs(a) * up + abs(b) * down)",
        "THEN (2::HUGEINT * abs(a) * up)",
    ),
    (
        "dividing a double by zero is infinite",
        "ivm/portable/numbers.py",
        "CASE WHEN x = 0 THEN CAST(1 // CAST(x AS BIGINT) AS DOUBLE) ELSE x END",
        "x",
    ),
    (
        "a product keeps too few digits",
        "ivm/portable/numbers.py",
        "bounded(a.digits + b.digits + 1, a.scale + b.scale)",
        "bounded(a.digits + b.digits, a.scale + b.scale)",
    ),
    (
        "any letter changes its case",
        "ivm/portable/scalars.py",
        "WHEN x IS NULL OR strlen(x) = length(x) THEN",
        "WHEN TRUE THEN",
    ),
    ("NULLs come last", "ivm/portable/expressions.py", "'FIRST' if node.args.get('nulls_first') else 'LAST'", "'LAST'"),
    ("NOT LIKE is LIKE", "ivm/portable/expressions.py", 'if node.args.get("negate") else found', "if False else found"),
    (
        "decimals are compared exactly",
        "ivm/portable/types.py",
        "min(scale, MOST_DIGITS - whole)",
        "min(scale, MOST_DIGITS)",
    ),
    ("wide decimals become doubles", "ivm/portable/casts.py", "source.digits <= 15", "source.digits <= 38"),
    (
        "groups of doubles are told apart by their values",
        "ivm/portable/aggregates.py",
        '"boolean", "double\'s text")',
        '"boolean", "double", "double\'s text")',
    ),
    (
        "an average of integers is cut off",
        "ivm/portable/aggregates.py",
        "AS BIGINT) AS DOUBLE) / nullif",
        "AS BIGINT) AS DOUBLE) // nullif",
    ),
    ("an unknown part of a node is left out", "ivm/portable/grammar.py", "k not in parts), None)", "False), None)"),
)
PORTABLE_TESTS = ("tests/pure/test_portable.py", "tests/spark/test_portable.py")

TABLES = {"delta": (DELTA, DELTA_TESTS), "protocol": (PROTOCOL, PROTOCOL_TESTS), "portable": (PORTABLE, PORTABLE_TESTS)}


def survives(mutant: Mutant, tests: tuple[str, ...]) -> bool:
    """Whether the tests pass with a mutant in place."""
    _, file, text, replacement = mutant
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("ivm", "tests", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        source = (copy / file).read_text()
        assert source.count(text) == 1, f"{file} has {text!r} {source.count(text)} times, not once"
        (copy / file).write_text(source.replace(text, replacement, 1))
        environment = {
            **os.environ,
            "PYTHONPATH": folder,
            "IVM_NIGHTLY": "",
            "IVM_JARS": os.environ.get("IVM_JARS", str(ROOT / ".jars")),
        }
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            cwd=folder,
            env=environment,
            capture_output=True,
            check=False,
        )
        return done.returncode == 0


def main() -> int:
    asked = sys.argv[1:]
    mutants, tests = TABLES[next((t for t in TABLES if f"--{t}" in asked), "delta")]
    chosen = [int(n) for n in asked if n.isdigit()] or list(range(len(mutants)))
    if not survives(NONE, tests):
        print("The tests fail without any mutant; mend that first.", flush=True)
        return len(chosen)
    survivors = 0
    for number in chosen:
        alive = survives(mutants[number], tests)
        survivors += alive
        print(f"{number:2} {'SURVIVES' if alive else 'killed  '} {mutants[number][0]}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} killed")
    return survivors


if __name__ == "__main__":
    sys.exit(main())

"""The protocol's order: one constant, whose steps can be taken one by one."""

from __future__ import annotations

import subprocess
import sys

from ivm.refresh import protocol
from ivm.refresh.protocol import NAMES, STEPS, Run, advance


def test_the_steps_in_order():
    assert NAMES == ("plan", "apply", "check", "publish", "compact")


def test_from_one_to_another(monkeypatch):
    taken = []

    def noted(step):
        def act(run):
            taken.append(step.__name__)
            run.plan = run.plan or (None if nothing else "a plan")

        return act

    nothing = False
    monkeypatch.setattr(protocol, "STEPS", tuple(map(noted, STEPS)))
    advance(Run(None, None))
    assert taken == list(NAMES)
    taken.clear()
    advance(Run(None, None, plan="a plan"), "check", "publish")
    assert taken == ["check", "publish"]
    taken.clear()
    nothing = True
    advance(Run(None, None))
    assert taken == ["plan"]


def test_to_know_the_order_is_cheap():
    code = (
        "import sys, ivm.refresh.protocol; "
        "print(sorted({'pyspark', 'deltalake', 'pyarrow', 'sqlglot'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

"""What a sweep of a root removes, and what it leaves."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ivm.feed.datasets import _of_epochs
from ivm.plan.nodes import EPOCH
from ivm.storage.location import Location
from ivm.trace.store import Layout


def test_only_what_is_kept_and_what_it_lies_in_stays(tmp_path):
    layout = Layout(Location.of(str(tmp_path)))
    for name in ("traces/v/output_a", "traces/v/output_ab", "traces/w/output_a", "staging/1_x/u", "staging/2_y/u/deep"):
        (layout.internal / name / "f").write(b"")
    (layout.programs / "p.json").write(b"")
    (layout.programs / "q.partial").write(b"")
    layout.sweep({layout.output_trace("v", "a"), f"{layout.internal}/staging/2_y/u"})
    left = sorted(f.url[len(layout.internal.url) + 1 :] for f in layout.internal.files())
    assert left == ["programs/p.json", "staging/2_y/u/deep/f", "traces/v/output_a/f"]


@pytest.mark.parametrize(
    ("batches", "epochs"),
    [((), [0, 1, 2, 3, 4]), (((0, 4),), [0, 1, 2, 3, 4]), (((0, 1), (3, 3)), [0, 1, 3]), (((5, 9),), [])],
)
def test_batches_that_do_not_count_are_left_out(batches, epochs):
    rows = pa.table({EPOCH: pa.array(range(5), pa.int64())})
    assert _of_epochs(rows, batches)[EPOCH].to_pylist() == epochs

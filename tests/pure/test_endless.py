"""After how many iterations a recursion is taken for endless: as many in a refresh by what changed as in a full one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.execute import fixpoint
from ivm.testing.recovery import Scene
from tests.pure.duck_session import WRITES, DuckSession

EDGES = pa.schema([("src", pa.int32()), ("dst", pa.int32())])
ROOTS = pa.schema([("node", pa.int32())])
FED = {"delta.enableChangeDataFeed": "true"}
REACHED = (
    "WITH RECURSIVE r (node) AS (SELECT node FROM roots UNION{all} SELECT e.dst FROM r JOIN e ON e.src = r.node) "
    "SELECT node FROM r"
)
BOUND = 4

pytestmark = pytest.mark.usefixtures("without_a_jvm")


@pytest.fixture(params=["", " ALL"], ids=["set", "bag"])
def scene(tmp_path, monkeypatch, request):
    monkeypatch.setattr(fixpoint, "ITERATIONS", {"all": BOUND, "distinct": BOUND})
    return Scene(DuckSession(), tmp_path, {"v": REACHED.format(all=request.param)}, ("e", "roots"), writes=WRITES)


def lay(scene, length, *roots):
    """A path of so many edges from node 0, and where the recursion starts."""
    edges = [{"src": i, "dst": i + 1} for i in range(length)]
    write_deltalake(scene.folder / "sources" / "e", pa.Table.from_pylist(edges, EDGES), configuration=FED)
    rows = pa.Table.from_pylist([{"node": n} for n in roots], ROOTS)
    write_deltalake(scene.folder / "sources" / "roots", rows, configuration=FED)


def refreshed(scene):
    """How the view was refreshed, the nodes it holds, and the error."""
    pipe = scene.pipeline(scene.folder)
    view = pipe.refresh().views["v"]
    return view.strategy, [] if view.error else sorted(n for (n,) in pipe.read("v").collect()), view.error


@pytest.mark.parametrize("first", [True, False], ids=["full", "incremental"])
@pytest.mark.parametrize("length", [BOUND - 1, BOUND])
def test_the_last_iteration_must_make_nothing(scene, first, length):
    lay(scene, length, *([0] if first else []))
    if not first:
        assert refreshed(scene) == ("full", [], "")
        roots = pa.Table.from_pylist([{"node": 0}], ROOTS)
        write_deltalake(scene.folder / "sources" / "roots", roots, mode="append")
    strategy, nodes, error = refreshed(scene)
    if length < BOUND:
        assert (strategy, nodes, error) == ("full" if first else "incremental", list(range(length + 1)), "")
    else:
        assert "did not end within 4 iterations; the last one still made 1 row" in error


@pytest.mark.parametrize("length", [BOUND - 1, BOUND])
def test_what_is_lost_is_followed_as_far(scene, length):
    lay(scene, BOUND - 1, 0, BOUND)
    assert refreshed(scene) == ("full", [*range(BOUND), BOUND], "")
    grow(scene, BOUND - 1, length)
    assert refreshed(scene)[2] == ""
    DeltaTable(scene.folder / "sources" / "roots").delete("node = 0")
    # As a set, the last node has a derivation left, and is no loss.
    far = length == BOUND and "ALL" in scene.views["v"]
    assert refreshed(scene) == ("full" if far else "incremental", [BOUND], "")


@pytest.mark.parametrize("scene", [" ALL"], indirect=True, ids=["bag"])
def test_a_bag_that_grew_deeper_is_built_anew_where_spark_would_compute_it(scene):
    lay(scene, BOUND - 1, 0)
    assert refreshed(scene)[0] == "full"
    for start, end in ((BOUND - 1, BOUND + 2), (BOUND + 2, 2 * BOUND)):
        grow(scene, start, end)
        assert refreshed(scene) == ("incremental", list(range(end + 1)), "")
    told = scene.pipeline(scene.folder).backfill("v").views["v"].error
    assert "did not end within 4 iterations" in told
    assert "or raise spark.sql.cteRecursionLevelLimit" in told
    assert refreshed(scene)[1] == list(range(2 * BOUND + 1)), "what was published stays"
    for limit in (2 * BOUND + 1, -1):
        scene.spark.conf.get = {fixpoint.LEVELS: str(limit)}.get
        assert scene.pipeline(scene.folder).backfill("v").views["v"].error == ""
        assert refreshed(scene)[1] == list(range(2 * BOUND + 1))


def grow(scene, start, end):
    more = pa.Table.from_pylist([{"src": i, "dst": i + 1} for i in range(start, end)], EDGES)
    write_deltalake(scene.folder / "sources" / "e", more, mode="append")

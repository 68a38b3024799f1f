"""Views written with operators, on one footing with SQL views."""

from __future__ import annotations

import pytest

from ivm.errors import ConfigError, ViewError

pytestmark = pytest.mark.spark


def test_functions_of_collections_are_views(lake):
    lake.table("edges", "src int, dst int", rows=30)
    lake.table("names", "src int, name string", rows=10)
    pipe = lake.pipeline({})

    @pipe.view
    def degrees(edges):
        return edges.map(src="src").count_total()

    @pipe.view
    def distribution(degrees):
        return degrees.map(degree="count").count_total_u("n")

    @pipe.view
    def named(edges, names):
        return edges.join(names, ["src"]).explode(["name"], total="dst").count("n")

    @pipe.view
    def lonely(edges, names):
        return edges.antijoin(names, ["src"]).distinct()

    @pipe.view
    def often(edges):
        return edges.threshold("CASE WHEN n > 1 THEN 2 END")

    @pipe.view
    def both(edges, names):
        return edges.cogroup(names, ["src"], {"edges": "count(*)"}, {"names": "max(name)"})

    @pipe.view
    def split(edges):
        return edges.flat_map("explode(sequence(0, coalesce(dst, 0)))", ["step"]).top_k(["src"], "step DESC", 3)

    @pipe.view
    def reach(edges):
        return edges.iterate(
            lambda paths: (
                paths.map(src="src", mid="dst").join(edges.map(mid="src", dst="dst"), ["mid"]).map(src="src", dst="dst")
            )
        )

    for _ in range(4):
        assert lake.differences(pipe) == {}
        lake.change("edges")
        lake.change("names")
    assert all(c.incremental for c in pipe.context.compiled.values())
    assert "accumulators" in str(pipe.explain("degrees"))


def test_what_a_function_may_not_do_is_named(lake):
    lake.table("edges", "src int, dst int", rows=3)
    pipe = lake.pipeline({})
    with pytest.raises(ViewError, match="no source or view 'vertices'"):
        pipe.view(lambda vertices: vertices)
    with pytest.raises(ViewError, match="not a collection"):
        pipe.view(lambda edges: edges.explode(["src"]))
    with pytest.raises(ConfigError, match="has no SQL"):
        pipe.view("empty")

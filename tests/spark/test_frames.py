"""Z-sets over DataFrames against the in-process ones: every operator, every stream, on random Z-sets."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pyspark.sql import functions as fn

from ivm.zset.arrays import UnknownColumnError, ZSet
from ivm.zset.frames import DIFF, FrameTrace, FrameZSet
from ivm.zset.streams import (
    Count,
    CountTotal,
    Differentiate,
    Distinct,
    Integrate,
    IterationLimitError,
    Join,
    Reduce,
    Slow,
)

pytestmark = pytest.mark.spark

SCHEMA = f"k int, v int, {DIFF} bigint"


def random_rows(seed, size=8, weights=(-2, -1, 1, 1, 2)):
    source = random.Random(seed)
    return [(source.randint(0, 3), source.randint(0, 3), source.choice(weights)) for _ in range(size)]


def both(spark, rows):
    """The same Z-set twice: over arrays and over a DataFrame."""
    arrays = (
        ZSet({"k": [r[0] for r in rows], "v": [r[1] for r in rows]}, np.array([r[2] for r in rows], dtype="int64"))
        if rows
        else ZSet.of(["k", "v"], {})
    )
    return arrays, FrameZSet(spark.createDataFrame(rows, SCHEMA), ["k", "v"])


def largest(_, rows):
    there = [r for r, n in rows.items() if n > 0]
    return {max(there): 1} if there else {}


def netted(_, mine, theirs):
    return {(sum(mine.values()) - sum(theirs.values()),): 1}


OPERATORS = {
    "map": (lambda z: z.map(lambda c: {"s": c["k"] + c["v"]}), lambda z: z.map(s="k + v")),
    "filter": (lambda z: z.filter(lambda c: c["k"] > 1), lambda z: z.filter("k > 1")),
    "flat_map": (
        lambda z: z.flat_map(
            lambda c: (
                np.repeat(np.arange(len(c["k"])), 2),
                {"k": np.repeat(c["k"], 2), "v": np.repeat(c["v"], 2), "i": np.tile([0, 1], len(c["k"]))},
            )
        ),
        lambda z: z.flat_map("explode(array(0, 1))", ["i"]),
    ),
    "negated": (lambda z: -z, lambda z: -z),
    "explode": (lambda z: z.explode(["k"], ["v"]), lambda z: z.explode(["k"], v="v")),
    "explode and count": (
        lambda z: z.explode(["k"], ["v"]).count(["total", "n"]),
        lambda z: z.explode(["k"], v="v").count(["total", "n"]),
    ),
    "count": (lambda z: z.count(), lambda z: z.count()),
    "distinct": (lambda z: z.distinct(), lambda z: z.distinct()),
    "threshold": (
        lambda z: z.threshold(lambda w: np.where(w > 1, w - 1, 0)),
        lambda z: z.threshold(lambda w: fn.when(w > 1, w - 1).otherwise(0)),
    ),
    "reduce": (lambda z: z.reduce(["k"], largest, ["v"]), lambda z: z.reduce(["k"], largest, {"v": "int"})),
    "top_k": (lambda z: z.top_k(["k"], ["v"], 2), lambda z: z.top_k(["k"], ["v"], 2)),
    "zero": (lambda z: z.zero(), lambda z: z.zero()),
}
BINARY = {
    "sum": (lambda a, b: a + b, lambda a, b: a + b),
    "difference": (lambda a, b: a - b, lambda a, b: a - b),
    "join": (lambda a, b: a.join(renamed(b), ["k"]), lambda a, b: a.join(b.map(k="k", w="v"), ["k"])),
    "semijoin": (lambda a, b: a.semijoin(b, ["k"]), lambda a, b: a.semijoin(b, ["k"])),
    "antijoin": (lambda a, b: a.antijoin(b.distinct(), ["k"]), lambda a, b: a.antijoin(b.distinct(), ["k"])),
    "cogroup": (
        lambda a, b: a.cogroup(b, ["k"], netted, ["n"]),
        lambda a, b: a.cogroup(b, ["k"], netted, {"n": "bigint"}),
    ),
}


def renamed(z):
    return z.map(lambda c: {"k": c["k"], "w": c["v"]})


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_those_of_arrays(spark, name):
    on_arrays, on_frames = OPERATORS[name]
    for seed in range(2):
        arrays, frame = both(spark, random_rows(seed))
        assert on_frames(frame).rows() == on_arrays(arrays).rows()


@pytest.mark.parametrize("name", BINARY)
def test_operators_of_two_are_those_of_arrays(spark, name):
    on_arrays, on_frames = BINARY[name]
    for seed in range(2):
        (a, fa), (b, fb) = both(spark, random_rows(seed)), both(spark, random_rows(seed + 10))
        assert on_frames(fa, fb).rows() == on_arrays(a, b).rows()


STREAMS = {
    "integrate": (Integrate, Integrate),
    "differentiate": (Differentiate, Differentiate),
    "count": (lambda: Count(["k", "v"]), lambda: Count(["k", "v"], trace=FrameTrace)),
    "count_total": (lambda: CountTotal(["k", "v"]), lambda: CountTotal(["k", "v"], trace=FrameTrace)),
    "distinct": (lambda: Distinct(["k", "v"]), lambda: Distinct(["k", "v"], trace=FrameTrace)),
    "reduce": (
        lambda: Reduce(["k"], lambda z: z.top_k(["k"], ["v"], 1)),
        lambda: Reduce(["k"], lambda z: z.top_k(["k"], ["v"], 1), trace=FrameTrace),
    ),
    "slow": (lambda: Slow(lambda z: z.distinct()), lambda: Slow(lambda z: z.distinct())),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_those_of_arrays(spark, name):
    on_arrays, on_frames = (make() for make in STREAMS[name])
    for seed in range(3):
        arrays, frame = both(spark, random_rows(seed) if seed != 1 else [])
        assert on_frames.step(frame).rows() == on_arrays.step(arrays).rows()


def test_a_stream_of_joins_is_that_of_arrays(spark):
    one, two = Join(["k"]), Join(["k"])
    for seed in range(3):
        (a, fa), (b, fb) = both(spark, random_rows(seed, 5)), both(spark, random_rows(seed + 10, 5))
        assert two.step(fa, fb.map(k="k", w="v")).rows() == one.step(a, renamed(b)).rows()


def test_iterate_reaches_the_closure_and_says_when_it_has_no_end(spark):
    edges = FrameZSet.of(spark.createDataFrame([(1, 2), (2, 3), (3, 1), (4, 4)], "a int, b int"))

    def longer(paths):
        return paths.map(a="a", m="b").join(edges.map(m="a", b="b"), ["m"]).map(a="a", b="b")

    assert edges.iterate(longer).rows() == {(a, b): 1 for a in (1, 2, 3) for b in (1, 2, 3)} | {(4, 4): 1}
    with pytest.raises(IterationLimitError, match="no fixpoint after 3 iterations"):
        edges.iterate(lambda p: p.map(a="a + 1", b="b"), limit=3)


def test_nulls_are_values_like_others(spark):
    z = FrameZSet.of(spark.createDataFrame([(None, 1), (None, 1), (2, None)], "k int, v int"))
    assert z.rows() == {(None, 1): 2, (2, None): 1}
    assert z.join(z.map(k="k", w="v"), ["k"]).rows() == {(None, 1, 1): 4, (2, None, None): 1}
    assert z.antijoin(z.filter("k IS NULL"), ["k"]).rows() == {(2, None): 1}


def test_a_change_feed_is_a_z_set(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (k int, v int) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1), (2, 2)")
    spark.sql(f"UPDATE delta.`{path}` SET v = 9 WHERE k = 1")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE k = 2")
    feed = FrameZSet.of_change_feed(
        spark.read.option("readChangeFeed", "true").option("startingVersion", 2).format("delta").load(path)
    )
    assert feed.rows() == {(1, 1): -1, (1, 9): 1, (2, 2): -1}


def test_unknown_columns_are_named(spark):
    _, z = both(spark, random_rows(0))
    with pytest.raises(UnknownColumnError, match="no column x; the Z-set has k, v"):
        z.join(z, ["x"])
    with pytest.raises(ValueError, match="different columns"):
        z + z.map(k="k")
    with pytest.raises(ValueError, match="column 'v' that is no key"):
        z.join(z, ["k"])

"""The laws of Z-sets and of their operators, against plain Python counters; streams against their slow form."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivm.errors import ConfigError
from ivm.zset import backend
from ivm.zset.arrays import UnknownColumnError, ZSet
from ivm.zset.spine import Spine
from ivm.zset.streams import (
    Count,
    CountTotal,
    Distinct,
    General,
    IndexedJoin,
    IterationLimitError,
    Join,
    Lift,
    Reduce,
    Slow,
    delayed,
    differentiated,
    integrated,
    iterate,
)

weights = st.integers(-3, 3)
rows = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), weights, max_size=8)
#: Z-sets with a row possibly listed several times.
zsets = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), weights), max_size=10).map(
    lambda r: (
        ZSet({"k": [x[0] for x in r], "v": [x[1] for x in r]}, np.array([x[2] for x in r], dtype="int64"))
        if r
        else ZSet.of(["k", "v"], {})
    )
)
positive = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=10).map(
    lambda r: ZSet({"k": [x[0] for x in r], "v": [x[1] for x in r]}) if r else ZSet.of(["k", "v"], {})
)
LINEAR = {
    "map": lambda z: z.map(lambda c: {"v": c["v"], "s": c["k"] + c["v"]}),
    "filter": lambda z: z.filter(lambda c: c["k"] > 1),
    "flat_map": lambda z: z.flat_map(
        lambda c: (np.repeat(np.arange(len(c["k"])), 2), {"v": np.repeat(c["v"], 2), "i": np.tile([0, 1], len(c["k"]))})
    ),
    "negated": lambda z: -z,
}
GENERAL = {
    **LINEAR,
    "distinct": lambda z: z.distinct(),
    "threshold": lambda z: z.threshold(lambda w: np.where(w > 1, w, 0)),
    "count": lambda z: z.count(),
    "max": lambda z: z.reduce(
        ["k"], lambda _, c: {max(r for r, n in c.items() if n > 0): 1} if any(n > 0 for n in c.values()) else {}, ["v"]
    ),
    "top": lambda z: z.top_k(["k"], ["v"], 2),
}


def counter(z):
    found = Counter()
    for *row, weight in zip(*(c.tolist() for c in z.columns.values()), z.diffs.tolist(), strict=True):
        found[tuple(row)] += weight
    return {r: w for r, w in found.items() if w}


def values(z):
    return z.map(lambda c: {"k": c["k"], "w": c["v"]})


@given(zsets, zsets, zsets)
def test_z_sets_are_an_abelian_group(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + a.zero() == a
    assert (a - a).rows() == {}
    assert counter(a) == a.rows()


@given(zsets)
def test_consolidation_is_idempotent_and_keeps_the_meaning(a):
    once = a.consolidated()
    assert once == a
    assert len(once.consolidated()) == len(once) == len(counter(a))


@given(zsets, zsets, st.sampled_from(sorted(LINEAR)))
def test_linear_operators(a, b, name):
    q = LINEAR[name]
    assert q(a + b) == q(a) + q(b)
    assert q(-a) == -q(a)


@given(zsets, zsets, zsets)
def test_the_join_is_bilinear(a, b, c):
    def q(x, y):
        return x.join(values(y), ["k"])

    assert q(a + b, c) == q(a, c) + q(b, c)
    assert q(a, b + c) == q(a, b) + q(a, c)
    expected = Counter()
    for (k, v), n in counter(a).items():
        for (m, w), times in counter(b).items():
            if k == m:
                expected[k, v, w] += n * times
    assert q(a, b).rows() == {r: w for r, w in expected.items() if w}


@given(zsets, zsets)
def test_joins_by_several_keys(a, b):
    expected = {r: n * counter(b)[r] for r, n in counter(a).items() if r in counter(b)}
    assert a.join(b, ["k", "v"]).rows() == expected


@given(positive, positive)
def test_semijoin_and_antijoin_split_a_bag(a, b):
    keys = {r[0] for r in counter(b)}
    semi = a.semijoin(b.map(lambda c: {"k": c["k"]}).distinct(), ["k"])
    assert semi.rows() == {r: n for r, n in counter(a).items() if r[0] in keys}
    assert a.antijoin(b, ["k"]).rows() == {r: n for r, n in counter(a).items() if r[0] not in keys}
    assert semi + a.antijoin(b, ["k"]) == a


@given(zsets)
def test_explode_moves_values_into_the_difference(a):
    sums = Counter()
    counts = Counter()
    for (k, v), n in counter(a).items():
        sums[k] += v * n
        counts[k] += n
    expected = {(k,): (sums[k], counts[k]) for k in counts if sums[k] or counts[k]}
    moved = a.explode(["k"], ["v"])
    assert moved.rows() == expected
    assert moved.count(["sum", "n"]).rows() == {(k[0], *d): 1 for k, d in expected.items()}


@given(positive)
def test_top_k_keeps_multiplicities(a):
    expected = Counter()
    for key in {k for k, _ in counter(a)}:
        listed = sorted(v for (k, v), n in counter(a).items() if k == key for _ in range(n))
        expected.update((key, v) for v in listed[:2])
    assert a.top_k(["k"], ["v"], 2).rows() == dict(expected)


@given(positive, positive)
def test_cogroup_sees_both_sides(a, b):
    both = a.cogroup(b, ["k"], lambda _, x, y: {(sum(x.values()), sum(y.values())): 1}, ["n", "m"])
    keys = {k for k, _ in [*counter(a), *counter(b)]}
    total = {
        k: (sum(n for (j, _), n in counter(a).items() if j == k), sum(n for (j, _), n in counter(b).items() if j == k))
        for k in keys
    }
    assert both.rows() == {(k, *t): 1 for k, t in total.items()}


# -- streams ----------------------------------------------------------------------------------------


@given(st.lists(zsets, max_size=5))
def test_integrate_and_differentiate_are_inverse(stream):
    assert differentiated(integrated(stream)) == stream
    assert integrated(differentiated(stream)) == stream
    later = delayed(stream)
    assert [a - b for a, b in zip(stream, later, strict=True)] == differentiated(stream)


@given(st.lists(zsets, max_size=4), st.sampled_from(sorted(LINEAR)))
def test_a_linear_operator_is_its_own_incremental_form(stream, name):
    slow, fast = Slow(LINEAR[name]), Lift(LINEAR[name])
    assert [slow.step(b) for b in stream] == [fast.step(b) for b in stream]


@given(st.lists(zsets, max_size=4), st.sampled_from(sorted(GENERAL)), st.sampled_from(sorted(LINEAR)))
def test_the_chain_rule(stream, outer, inner):
    def first(z):
        return LINEAR[inner](z).map(lambda c: {"k": next(iter(c.values())), "v": list(c.values())[-1]})

    whole = Slow(lambda z: GENERAL[outer](first(z)))
    one, two = Slow(first), Slow(GENERAL[outer])
    assert [whole.step(b) for b in stream] == [two.step(one.step(b)) for b in stream]


@given(st.lists(st.tuples(zsets, zsets), max_size=5), st.booleans())
def test_incremental_joins_equal_the_difference_of_the_whole_join(stream, indexed):
    fast = IndexedJoin(["k"]) if indexed else Join(["k"])
    left, right = ZSet.of(["k", "v"], {}), ZSet.of(["k", "w"], {})
    before = left.join(right, ["k"])
    for a, b in stream:
        left, right = left + a, right + values(b)
        now = left.join(right, ["k"])
        assert fast.step(a, values(b)) == now - before
        before = now


OPERATORS = {
    "count": (lambda: Count(["k", "v"]), GENERAL["count"]),
    "count_total": (lambda: CountTotal(["k", "v"]), GENERAL["count"]),
    "distinct": (lambda: Distinct(["k", "v"]), GENERAL["distinct"]),
    "max": (lambda: Reduce(["k"], GENERAL["max"]), GENERAL["max"]),
    "top_k": (lambda: Reduce(["k"], GENERAL["top"]), GENERAL["top"]),
}


@given(st.lists(zsets, max_size=6), st.sampled_from(sorted(OPERATORS)))
def test_operators_equal_their_slow_form(stream, name):
    made, query = OPERATORS[name]
    fast, slow = made(), Slow(query)
    assert [fast.step(b).rows() for b in stream] == [slow.step(b).rows() for b in stream]


@given(st.lists(zsets, max_size=6), st.sampled_from(sorted(OPERATORS)))
def test_one_big_step_is_many_small_ones(stream, name):
    many, one = OPERATORS[name][0](), OPERATORS[name][0]()
    total = ZSet.of(["k", "v"], {})
    for batch in stream:
        total = total + batch
    small = [many.step(b) for b in stream]
    assert integrated(small)[-1:] == ([one.step(total)] if stream else [])


@given(st.lists(zsets, max_size=8))
def test_counting_tuples_of_sums(stream):
    total, general = CountTotal(["k"], ["sum", "n"]), Count(["k"], ["sum", "n"])
    slow = Slow(lambda z: z.count(["sum", "n"]))
    for batch in stream:
        delta = batch.explode(["k"], ["v"])
        expected = slow.step(delta).rows()
        assert total.step(delta).rows() == expected
        assert general.step(delta).rows() == expected


@given(st.lists(zsets, max_size=12))
def test_a_spine_holds_the_sum_in_few_batches(stream):
    spine = Spine(["k"])
    total = ZSet.of(["k", "v"], {})
    for batch in stream:
        spine.append(batch)
        total = total + batch
    assert spine.rows() == total
    assert all(len(a.rows) >= 2 * len(b.rows) for a, b in zip(spine.batches, spine.batches[1:], strict=False))


# -- recursion and refusals -------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_iterate_finds_the_transitive_closure(edges):
    z = ZSet.of(["a", "b"], dict.fromkeys(edges, 1))

    def longer(paths):
        joined = paths.map(lambda c: {"a": c["a"], "m": c["b"]}).join(
            z.map(lambda c: {"m": c["a"], "b": c["b"]}), ["m"]
        )
        return joined.map(lambda c: {"a": c["a"], "b": c["b"]})

    expected = set(edges)
    while True:
        more = {(a, d) for a, b in expected for c, d in edges if b == c} - expected
        if not more:
            break
        expected |= more
    assert iterate(z, longer).rows() == dict.fromkeys(expected, 1)


def test_iterate_says_when_it_does_not_end():
    with pytest.raises(IterationLimitError, match="no fixpoint after 10 iterations"):
        iterate(ZSet({"n": [0]}), lambda z: z.map(lambda c: {"n": c["n"] + 1}), limit=10)


def test_unknown_columns_and_other_columns_are_named():
    z = ZSet({"k": [1]})
    with pytest.raises(UnknownColumnError, match="there is no column q; the Z-set has k"):
        z.semijoin(ZSet({"k": [1]}), ["q"])
    with pytest.raises(ValueError, match="different columns"):
        _ = z + ZSet({"v": [1]})
    with pytest.raises(ValueError, match="one length"):
        ZSet({"k": [1, 2], "v": [1]})
    with pytest.raises(ValueError, match="names are needed"):
        z.count(["a", "b"])


def test_the_backend_is_named_where_it_is_missing():
    with pytest.raises(ConfigError, match="no array backend 'torch'"):
        backend.use("torch")
    backend.use("numpy")
    assert backend.xp() is np


@given(st.lists(st.tuples(zsets, zsets), min_size=1, max_size=4))
def test_a_join_can_share_the_arrangement_of_the_reduce_before_it(steps):
    first, second = General(["k"], lambda z: z.distinct()), General(["k"], lambda z: z.distinct())
    own, shared = IndexedJoin(["k"]), IndexedJoin(["k"], second.output)
    for left, right in steps:
        assert shared.step(left, second.step(values(right))) == own.step(left, first.step(values(right)))


@pytest.mark.parametrize("values", [[b"a\0", b"a"], ["a\0", "a"], [1, "1"], [2**63 + 1, -1], [0.5, 2**53 + 1]])
def test_values_that_an_array_would_change_are_refused(values):
    with pytest.raises(ValueError, match="column 'a' would hold other values as an array of"):
        ZSet({"a": values})
    held = np.empty(len(values), object)
    held[:] = values
    assert ZSet({"a": held}).columns["a"].tolist() == values


@pytest.mark.parametrize(
    "values",
    [[0.5, 1e300, float("inf")], [1, 2.5], [2**63, 0], ["a", ""], [], [b"\0a"], [True], ["1", None, 1], [1, 2**70 + 1]],
)
def test_values_that_an_array_holds_are_kept(values):
    assert ZSet({"a": values}).columns["a"].tolist() == values

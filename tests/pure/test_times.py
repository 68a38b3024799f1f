"""Times, frontiers and reduce over partially ordered times: laws, the first seed's examples, and a naive oracle."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.times.frontier import Frontier, advanced, compacted
from ivm.times.lattice import TimeTypeError, checked, closure, join, less_equal, meet
from ivm.times.reduce import NegativeError, accumulated, interesting, reduced

pairs = st.tuples(st.integers(0, 5), st.integers(0, 5))
triples = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
times = st.one_of(st.lists(pairs, max_size=7), st.lists(triples, max_size=5), st.lists(st.integers(0, 6), max_size=6))


def all_joins(listed):
    found = set()
    for size in range(1, len(listed) + 1):
        for some in itertools.combinations(listed, size):
            bound = some[0]
            for t in some[1:]:
                bound = join(bound, t)
            found.add(bound)
    return sorted(found)


@given(pairs, pairs, pairs)
def test_join_and_meet_are_the_least_and_greatest_bounds(a, b, c):
    assert less_equal(a, join(a, b))
    assert less_equal(meet(a, b), a)
    assert (less_equal(a, c) and less_equal(b, c)) == less_equal(join(a, b), c)
    assert (less_equal(c, a) and less_equal(c, b)) == less_equal(c, meet(a, b))
    assert join(a, b) == join(b, a)
    assert join(a, join(b, c)) == join(join(a, b), c)
    assert join(a, meet(a, b)) == a


@given(times)
def test_closure_is_all_joins_of_subsets(listed):
    assert closure(listed) == all_joins(listed)


def test_closure_of_a_grid_and_of_lines():
    size = 300
    grid = [(0, i) for i in range(size)] + [(i, 0) for i in range(size)]
    assert len(closure(grid)) == size * size
    lines = [(0, i) for i in range(0, 30_000, 3)] + [(1, i) for i in range(0, 30_000, 2)]
    # Had the search been quadratic in its input, this would take minutes.
    assert len(closure(lines)) == 10_000 + 20_000


@pytest.mark.parametrize("wrong", ["monday", 1.5, None, True, (), (1, "x"), [1, 2]])
def test_what_is_no_time_is_refused_by_name(wrong):
    with pytest.raises(TimeTypeError, match=type(wrong).__name__):
        checked(wrong)
    with pytest.raises(TimeTypeError):
        reduced([("a", wrong, 1)], [], [], dict)


def test_times_of_different_orders_are_not_compared():
    with pytest.raises(TimeTypeError, match="different orders"):
        less_equal((1, 2), 3)
    with pytest.raises(TimeTypeError, match="different orders"):
        closure([(1, 2), (1, 2, 3)])


@given(st.lists(pairs, min_size=1, max_size=3), pairs, pairs)
def test_advanced_times_look_the_same_beyond_the_frontier(front, time, reader):
    frontier = Frontier.of(*front)
    at = advanced(time, frontier)
    if frontier.reached_by(reader):
        assert less_equal(time, reader) == less_equal(at, reader)
    assert less_equal(time, at)


@given(
    st.lists(st.tuples(st.sampled_from([("a",), ("b",)]), pairs, st.sampled_from([1, -1, 2])), max_size=8),
    st.lists(pairs, min_size=1, max_size=2),
    pairs,
)
def test_compaction_changes_no_reader_beyond_it(updates, front, reader):
    frontier = Frontier.of(*front)
    after = compacted(updates, frontier)
    assert len(after) <= len(updates)
    assert compacted(after, frontier) == after
    if frontier.reached_by(reader):
        assert accumulated(after, reader) == accumulated(updates, reader)


def test_beyond_the_empty_frontier_nobody_reads():
    assert compacted([(("a",), 1, 1)], Frontier.of()) == []
    assert Frontier.of().beyond(Frontier.of(3))
    assert not Frontier.of(2).beyond(Frontier.of(3))


# -- the first seed's worked examples ----------------------------------------------------------------


def words(collection):
    return {" ".join(sorted(collection)): 1} if collection else {}


def test_carrot_and_turnip_change_the_output_at_a_time_without_input():
    updates = [("carrot", (1, 3), 1), ("turnip", (2, 2), 1)]
    assert interesting([t for _, t, _ in updates], []) == [(1, 3), (2, 2), (2, 3)]
    output = reduced(updates, [], [], words)
    assert (2, 3) in {t for _, t, _ in output}
    assert accumulated(output, (2, 3)) == {"carrot turnip": 1}
    assert accumulated(output, (1, 3)) == {"carrot": 1}
    assert accumulated(output, (2, 2)) == {"turnip": 1}
    assert accumulated(output, (1, 2)) == {}


def test_in_a_total_order_output_changes_only_where_input_does():
    updates = [("a", 1, 1), ("b", 4, 1), ("a", 6, -1)]
    assert {t for _, t, _ in reduced(updates, [], [], words)} == {1, 4, 6}


def test_a_grid_of_times_has_quadratic_joins_and_lines_have_linear_ones():
    n = 12
    assert len(interesting([(i, 0) for i in range(n)], [(0, i) for i in range(n)])) == n * n
    assert len(interesting([(1, i) for i in range(n)], [(0, i) for i in range(n)])) == n


def test_deleting_what_was_not_there_is_named():
    with pytest.raises(NegativeError, match=r"'a' would occur -1 times at time \(2, 0\)"):
        reduced([("a", (2, 0), -1)], [("a", (0, 1), 1)], [], words)


# -- random, against the definition ------------------------------------------------------------------

LOGICS = {
    "words": words,
    "count": lambda c: {sum(c.values()): 1} if c else {},
    "distinct": lambda c: dict.fromkeys(c, 1),
    "max": lambda c: {max(c): 1} if c else {},
    "top two": lambda c: dict.fromkeys(sorted(c)[:2], 1),
}


@settings(max_examples=200)
@given(st.data(), st.sampled_from(sorted(LOGICS)), st.sampled_from([pairs, triples, st.integers(0, 6)]))
def test_reduced_accumulates_to_the_function_of_its_input_at_every_time(data, name, order):
    batches = data.draw(
        st.lists(st.lists(st.tuples(st.sampled_from("abcd"), order, st.just(1)), max_size=4), max_size=4)
    )
    known, emitted = [], []
    for batch in batches:
        # A later batch may delete at or after what an earlier one inserted.
        later = [
            (v, join(t, data.draw(order)), -1)
            for v, t, d in known
            if d > 0 and data.draw(st.integers(0, 5)) == 0 and (v, t) not in {(w, u) for w, u, e in known if e < 0}
        ]
        try:
            emitted += reduced(batch + later, known, emitted, LOGICS[name])
        except NegativeError:
            return  # the same value was deleted twice on incomparable ways
        known += batch + later
    everywhere = all_joins(sorted({t for _, t, _ in known}))[:60]
    for time in everywhere:
        assert accumulated(emitted, time) == dict(LOGICS[name](accumulated(known, time)))

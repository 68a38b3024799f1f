"""The order of keyed reads: each match once, after what provides its keys; large relations as seldom as can be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ivm.rewrite.rounds import Rounds
from ivm.rewrite.slices import DELTA, WHOLE, Match, Provider, Requests

SIZES = {"lineitem": 60, "orders": 15, "customer": 2, "nation": None}
RELATIONS = sorted(SIZES)


def match(
    relation: str, level: int, via: Match | None = None, column: str = "k", partners: tuple[Match, ...] = ()
) -> Match:
    return Match((column,), Provider(relation, level, (column,), via, partners=partners))


def taken(rounds: Rounds) -> list[dict[str, set[Match]]]:
    found = []
    while asked := rounds.take():
        found.append(asked)
    return found


def test_the_largest_relation_waits_until_it_can_be_read_once():
    orders, lineitem = match("customer", DELTA), match("orders", DELTA)
    onward = match("orders", 1, orders)
    back = match("lineitem", 1, lineitem)
    requests = Requests(
        {("orders", 1): {orders}, ("lineitem", 1): {lineitem}, ("lineitem", 2): {onward}, ("orders", 2): {back}}
    )
    assert taken(Rounds(requests, (), SIZES)) == [
        {"orders": {orders}},
        {"lineitem": {lineitem, onward}},
        {"orders": {back}},
    ]


def test_far_smaller_relations_are_read_before_any_large_one():
    by_customer, by_order = match("orders", DELTA), match("customer", 1)
    partner = match("customer", 1, by_customer)
    onward = match("orders", 1, by_order, partners=(partner,))
    requests = Requests(
        {
            ("customer", 1): {by_customer},
            ("orders", 1): {match("lineitem", DELTA)},
            ("orders", 2): {by_order},
            ("lineitem", 1): {match("orders", DELTA, column="o")},
            ("lineitem", 3): {onward},
        }
    )
    assert [sorted(asked) for asked in taken(Rounds(requests, (), SIZES))] == [["customer"], ["orders"], ["lineitem"]]


def test_keys_wait_for_the_partners_of_the_rows_that_provide_them():
    by_order = match("orders", DELTA)
    partner = match("customer", 1, by_order)
    wanted = match("orders", DELTA, partners=(partner,))
    requests = Requests({("customer", 1): {by_order}, ("lineitem", 2): {wanted}})
    assert taken(Rounds(requests, (), SIZES)) == [{"customer": {by_order}}, {"lineitem": {wanted}}]


def test_a_partner_that_is_read_whole_is_there_from_the_beginning():
    wanted = match("orders", DELTA, partners=(match("customer", WHOLE),))
    assert taken(Rounds(Requests({("lineitem", 1): {wanted}}), (), SIZES)) == [{"lineitem": {wanted}}]


def test_a_relation_that_provides_its_own_keys_does_not_wait_for_them():
    first = match("customer", DELTA)
    again = match("lineitem", 1, first)
    requests = Requests({("lineitem", 1): {first}, ("lineitem", 2): {again}, ("orders", 1): {first}})
    assert taken(Rounds(requests, (), SIZES)) == [{"lineitem": {first}, "orders": {first}}, {"lineitem": {again}}]


def test_rows_of_higher_levels_provide_no_keys_of_lower_ones():
    first, second = match("customer", DELTA), match("orders", DELTA)
    far = match("lineitem", 1, None)
    requests = Requests({("lineitem", 1): {first}, ("lineitem", 2): {second}, ("nation", 2): {far}})
    rounds = Rounds(requests, (), SIZES)
    assert rounds.take() == {"lineitem": {first, second}}
    assert rounds.through(far) == [first]
    assert rounds.take() == {"nation": {far}}
    assert rounds.take() == {}


def test_what_is_there_as_a_whole_is_not_read_and_provides_keys():
    first = match("customer", DELTA)
    onward = match("orders", 1, first)
    rounds = Rounds(Requests({("orders", 1): {first}, ("lineitem", 2): {onward}}), {"orders"}, SIZES)
    assert taken(rounds) == [{"lineitem": {onward}}]
    assert rounds.through(onward) == [first]


def test_keys_wait_for_what_picks_rows_of_a_whole_relation():
    first = match("customer", DELTA)
    middle = match("orders", 1, first)
    last = match("nation", 2, middle)
    requests = Requests({("orders", 1): {first}, ("nation", 2): {middle}, ("lineitem", 3): {last}})
    assert taken(Rounds(requests, {"nation"}, SIZES)) == [{"orders": {first}}, {"lineitem": {last}}]


@st.composite
def requested(draw) -> Requests:
    """Walks as `ivm.rewrite.slices` makes them: each step from a delta, or from rows that an earlier step reached."""
    requests = Requests()
    reached: list[tuple[str, int, Match | None]] = [(r, DELTA, None) for r in RELATIONS]
    for number in range(draw(st.integers(1, 8))):
        relation, level, via = draw(st.sampled_from(reached))
        if draw(st.booleans()):
            via = None
        to = draw(st.sampled_from(RELATIONS))
        others = draw(st.lists(st.sampled_from(reached), max_size=2))
        partners = tuple(match(r, draw(st.sampled_from((at, WHOLE))), how, "p") for r, at, how in others)
        step = match(relation, level, via, f"k{number}", partners)
        at = step.provider.depth + draw(st.integers(1, 2))
        requests.add(to, at, step)
        reached.append((to, at, step))
    return requests


def needed(m: Match, requests: Requests, whole) -> set[tuple[str, Match]]:
    """What gives a match's keys, what gives the keys by which rows of a whole relation are picked, and the partners."""
    partners = [p for p in m.provider.partners if p.provider.level != WHOLE]
    return rows_needed(m, requests, whole).union(*(needed(p, requests, whole) for p in partners))


def rows_needed(m: Match, requests: Requests, whole) -> set[tuple[str, Match]]:
    relation, level, via = m.provider.relation, m.provider.level, m.provider.via
    if level == DELTA:
        return set()
    if relation in whole:
        return needed(via, requests, whole) if via is not None else set()
    if via is not None:
        return {(relation, via)}
    return {(r, p) for (r, at), of in requests.matches.items() if r == relation and at <= level for p in of}


@given(requests=requested(), whole=st.sets(st.sampled_from(RELATIONS), max_size=1))
def test_each_match_is_taken_once_and_after_its_providers(requests, whole):
    wanted = {(r, m) for (r, _), matches in requests.matches.items() for m in matches if r not in whole}
    gone = {(r, m) for (r, _), matches in requests.matches.items() for m in matches if r in whole}
    rounds, done = Rounds(requests, whole, SIZES), set()
    while asked := rounds.take():
        new = {(r, m) for r, matches in asked.items() for m in matches}
        assert not new & done
        for _, m in new:
            assert needed(m, requests, whole) <= done
            through = rounds.through(m)
            assert through is None or {(m.provider.relation, p) for p in through} <= done | new | gone
        done |= new
    assert done == wanted

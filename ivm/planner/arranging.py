"""Which arrangements pay, by what keyed reads of large relations took (pure).

    gain(epoch) = sum over its reads of (seconds of a scan - seconds of a search) - upkeep
    balance     = the balance before + gain, kept between 0 and the price of making them
    made        once the balance is the price; dropped once it is 0 again

An account is kept for all arrangements that one read needs: it is searched only where each of its lists of keys has
one. This is the work function of a metrical task system of two states, which costs at most three times what it costs
who knows all reads to come: Borodin, Linial, Saks, An Optimal On-line Algorithm for Metrical Task System, J. ACM 39(4),
1992. The seconds are estimates, but for those that a scan or a search took.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

#: Lists of columns that rows are found by, in order; none of them holds all columns of another.
Keys: TypeAlias = tuple[tuple[str, ...], ...]

#: Seconds for each value (rows times columns) of an arrangement that is made: Spark sorts it and writes its files.
#: Measured on two cores with three columns of TPC-H's lineitem: 0.13e-6 at SF1, 0.24e-6 at SF5, 0.39e-6 at SF10.
MADE_VALUE = 0.3e-6
#: Seconds that starting a session takes, where there is none to make it.
STARTED = 10.0
#: Seconds of following a relation in an epoch, and for each of its changed rows.
FOLLOWED, FOLLOWED_ROW = 0.01, 5e-6
#: Seconds of any search, and the rows of an arrangement that are read together for one key. Measured at SF10 (60 M
#: rows, a scan takes 0.5 s): one key 0.03, ten 0.09, a hundred 0.26, a thousand 0.40, ten thousand 0.67.
SEARCHED, GROUP = 0.02, 200_000


@dataclass(frozen=True)
class KeyedRead:
    """How the rows of a relation with so many `values` of keys were found: by scanning it, or in its arrangements.

    The relation has `rows`, and `changed` of them in the epoch; `columns` are how many of it views read.
    """

    relation: str
    keys: Keys
    values: int
    rows: int
    columns: int
    changed: int
    seconds: float
    arranged: bool = False


@dataclass(frozen=True)
class Account:
    """What the arrangements of a relation by these keys would bring, or bring once they are `made`.

    `balance` and `price` are seconds; a `scan` took so many when it was last seen.
    """

    relation: str
    keys: Keys
    made: bool = False
    balance: float = 0.0
    price: float = 0.0
    scan: float = 0.0
    #: How many columns of the relation views read, when it was last seen.
    columns: int = 0


def least(keys: Collection[tuple[str, ...]]) -> Keys:
    """The lists of columns that suffice to find what is asked for by all of `keys`: by fewer columns more are found.

    >>> least([("part", "supplier"), ("part",), ("order",)])
    (('order',), ('part',))
    """
    return tuple(sorted(k for k in set(keys) if not any(set(other) < set(k) for other in keys)))


def settle(
    accounts: Sequence[Account],
    reads: Sequence[KeyedRead],
    history_share: float,
    session: bool,
    fits: Callable[[Account], bool],
) -> tuple[Account, ...]:
    """The accounts after an epoch with these reads; without those that nothing speaks for.

    Arrangements are made anew once `history_share` of their rows is history. `session` says whether there is one to
    make them; one that would be made is not where it doesn't fit.
    """
    known = {(a.relation, a.keys): a for a in accounts}
    told: dict[tuple[str, Keys], list[KeyedRead]] = {}
    for read in reads:
        told.setdefault((read.relation, read.keys), []).append(read)
    found = []
    for key in sorted({*known, *told}):
        account = _after(known.get(key, Account(*key)), told.get(key, ()), history_share, session)
        if not account.made and 0 < account.price <= account.balance and fits(account):
            account = replace(account, made=True)
        if account.balance > 0:
            found.append(account)
    return tuple(found)


def searched(read: KeyedRead) -> float:
    """About how many seconds a search takes instead of a scan: of groups of rows those are read that hold a key.

    >>> scan = KeyedRead("lineitem", (("part",),), 10, 6_000_000, 3, 10, seconds=0.3)
    >>> round(searched(scan), 3), round(searched(replace(scan, values=10_000)), 3)
    (0.105, 0.32)
    """
    groups = max(1.0, read.rows / GROUP)
    return SEARCHED + read.seconds * -math.expm1(-read.values / groups)


def _after(account: Account, reads: Sequence[KeyedRead], history_share: float, session: bool) -> Account:
    upkeep, gain = FOLLOWED, 0.0
    if reads:
        newest = reads[-1]
        price = newest.rows * newest.columns * MADE_VALUE * len(account.keys) + (0.0 if session else STARTED)
        account = replace(account, price=price, columns=newest.columns)
        changed = max(r.changed for r in reads)
        upkeep += changed * FOLLOWED_ROW + account.price * changed / (history_share * max(1, newest.rows))
    for read in reads:
        if not read.arranged:
            account = replace(account, scan=read.seconds)
        # One that is scanned although there are arrangements shows no gain of them; one that others serve needs none.
        if read.arranged is account.made:
            gain += account.scan - (read.seconds if read.arranged else searched(read))
    return replace(account, balance=min(account.price, max(0.0, account.balance + gain - upkeep)))


def made(accounts: Sequence[Account]) -> Mapping[tuple[str, tuple[str, ...]], Account]:
    """The arrangements that are to be there, by relation and keys."""
    return {(a.relation, keys): a for a in accounts if a.made for keys in a.keys}

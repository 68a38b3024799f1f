"""Who is next: no contestant is always first, or always after the same one.

    order(2 i) = the names from the i-th on, then those before it;    order(2 i + 1) = the same backwards

Pure, so that a test can count.
"""

from __future__ import annotations

from collections.abc import Sequence


def turns(names: Sequence[str], number: int) -> list[str]:
    """The order of a round, from 0; in 2n rounds each of n names is first, and last, twice."""
    half, backwards = divmod(number, 2)
    first = half % len(names)
    order = [*names[first:], *names[:first]]
    return order[::-1] if backwards else order

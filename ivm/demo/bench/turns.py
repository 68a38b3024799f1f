"""Who is next: no contestant is always first, or always after the same one.

order(round) = the names from another one on in every second round, each order once forwards and once backwards
"""

from __future__ import annotations

from collections.abc import Sequence


def turns(names: Sequence[str], number: int) -> list[str]:
    """The order of a round, from 0; in 2n rounds each of n names is first, and last, twice."""
    half, backwards = divmod(number, 2)
    first = half % len(names)
    order = [*names[first:], *names[:first]]
    return order[::-1] if backwards else order

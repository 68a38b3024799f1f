"""What has a name and is made once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ivm.engine.once import Once


def test_who_asks_meanwhile_waits_and_others_are_made_beside_it():
    once, made = Once(), []
    begun, go_on = threading.Event(), threading.Event()

    def slowly():
        begun.set()
        assert go_on.wait(10), "nobody made the other one"
        made.append("slow")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(once.make, "slow", slowly)
        assert begun.wait(10)
        second = pool.submit(once.make, "slow", lambda: made.append("again"))
        once.make("other", lambda: made.append("other"))
        assert not second.done(), "it isn't there yet"
        go_on.set()
        first.result(10)
        second.result(10)
    assert made == ["other", "slow"]
    assert list(once) == ["other", "slow"]


def test_what_fails_is_tried_again():
    once, made = Once(), []

    def fails():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        once.make("a", fails)
    assert "a" not in once
    once.make("a", lambda: once.make("b", lambda: made.append("b")))
    assert ("a" in once, made) == (True, ["b"])


def test_what_is_forgotten_is_made_anew():
    once, made = Once(), []
    once.note("a")
    once.make("a", lambda: made.append(1))
    assert (once.forget("a"), once.forget("a"), made) == (True, False, [])
    once.make("a", lambda: made.append(2))
    assert made == [2]

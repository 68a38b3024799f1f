"""The mutants still fit the code: each one's text is in its file, once."""

from __future__ import annotations

import pytest

from tests.mutants import ROOT, TABLES


@pytest.mark.parametrize("table", TABLES)
def test_each_mutant_has_its_place(table):
    mutants, tests = TABLES[table]
    assert {t for t in tests if not (ROOT / t).exists()} == set()
    assert [what for what, file, text, _ in mutants if (ROOT / file).read_text().count(text) != 1] == []

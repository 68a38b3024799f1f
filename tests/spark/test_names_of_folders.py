"""A pipeline whose folders have names that URLs would encode, on Spark (see tests/pure/test_names_of_folders.py)."""

from __future__ import annotations

import pytest
from deltalake import write_deltalake

import ivm
from tests.pure.test_names_of_folders import SOURCE

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ["with a space", "ümlaut#1"])
def test_a_pipeline_works_in_it(spark, tmp_path, name):
    folder = tmp_path / name
    strategies = []
    for _ in range(3):
        write_deltalake(str(folder / "t"), SOURCE, mode="append", configuration={"delta.enableChangeDataFeed": "true"})
        pipe = ivm.Pipeline("named", spark, folder / "root")
        pipe.source("t", str(folder / "t"))
        pipe.view("v", "SELECT a, count(*) AS n FROM t GROUP BY a")
        strategies.append(pipe.refresh().views["v"].strategy)
        assert pipe.verify("v")
    assert strategies == ["full", "incremental", "incremental"]
    pipe.compact(keep_epochs=0)
    assert pipe.backfill("v", "a = 1").ok
    assert sorted(map(tuple, pipe.read("v").collect())) == [(1, 3), (2, 3)]

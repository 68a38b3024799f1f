"""Folders by any name: what delta-rs opens works whole, what it doesn't is refused before anything is written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ivm.errors import ConfigError
from ivm.feed.source import Source, inspect
from ivm.storage.location import Location, served
from ivm.testing.recovery import Scene, differences
from tests.pure.duck_session import WRITES, DuckSession

SOURCE = pa.table({"a": pa.array([1, 2], pa.int32())})


@pytest.mark.usefixtures("without_a_jvm")
@pytest.mark.parametrize("name", ["with a space", "ümlaut", "hash#mark", "why?", "a<b>", "quote'd", "50%"])
def test_a_pipeline_works_in_it(tmp_path, name):
    folder = tmp_path / name
    scene = Scene(DuckSession(), folder, {"v": "SELECT a, count(*) AS n FROM t GROUP BY a"}, ("t",), writes=WRITES)
    for _ in range(3):
        write_deltalake(
            str(folder / "sources" / "t"),
            SOURCE,
            mode="append",
            configuration={"delta.enableChangeDataFeed": "true"},
        )
        assert scene.pipeline(folder).refresh().ok
    pipe = scene.pipeline(folder)
    pipe.compact(keep_epochs=0)
    assert differences(pipe, scene.recomputed(folder)) == []


@pytest.mark.parametrize("name", ["a[b]", "a|b", "a^b", "a\\b", "a%20b"])
def test_it_is_refused_in_one_sentence(tmp_path, name):
    with pytest.raises(ConfigError, match=r"has '.*' in its name, which delta-rs can't open\. Rename it"):
        Location.of(str(tmp_path / name))
    assert served(str(tmp_path / name)) is None


def test_a_source_in_such_a_folder_is_left_to_spark(tmp_path):
    asked = []

    def spark():
        asked.append("spark")
        raise RuntimeError("no session here")

    with pytest.raises(RuntimeError, match="no session here"):
        inspect(Source("t", str(tmp_path / "a[b]")), spark, "auto")
    assert asked

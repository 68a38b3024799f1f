"""Whether Spark sees the root is asked once, before anything is written there; the sessions here only read files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import ivm
from ivm.errors import UnseenError
from ivm.parameters import location
from ivm.storage.folder import PARTIAL
from ivm.storage.location import Location
from ivm.trace.store import Layout
from ivm.visible import FILES, check_visible


class Session:
    """Answers what is asked of a SparkSession: its master, and the lines of text files under a folder."""

    def __init__(self, master: str, sees: bool = True) -> None:
        self.conf = SimpleNamespace(get=lambda key, default=None: master)
        self.sees, self.jobs, self.looks = sees, 0, 0
        self.read = SimpleNamespace(text=self._text)

    def _text(self, folder: str) -> SimpleNamespace:
        self.looks += 1
        place = Location.of(location(folder, "x"))
        if not self.sees and not place.local:
            raise RuntimeError("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found\n\tat java.base/x")
        return SimpleNamespace(collect=lambda: self._rows(place))

    def _rows(self, place: Location) -> list[tuple[str]]:
        self.jobs += 1
        if not self.sees:
            raise FileNotFoundError(f"File {place} does not exist")
        return [(f.read().decode(),) for f in place.files()]


def asked(session: Session, root: Path | str) -> None:
    place = Location.of(str(root))
    check_visible(session, place, Layout(place).scratches)


def test_a_folder_costs_nothing_on_local_spark(tmp_path):
    session = Session("local[*]", sees=False)
    asked(session, tmp_path / "root")
    assert (session.looks, session.jobs) == (0, 0)
    assert not (tmp_path / "root").exists()


def test_executors_elsewhere_are_asked_once(tmp_path):
    session = Session("spark://m:7077")
    for _ in range(3):
        asked(session, tmp_path / "root")
    assert session.jobs == 1
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


@pytest.mark.parametrize("there", ["", "root", "root/_ivm", "root/_ivm/scratch"])
def test_a_folder_that_executors_do_not_see(there, tmp_path):
    (tmp_path / there).mkdir(exist_ok=True, parents=True)
    before = sorted(tmp_path.rglob("*"))
    for _ in range(2):  # it is asked again: the folder may be mounted meanwhile
        with pytest.raises(UnseenError, match=r"see the root /.*/root: it is a folder of this machine.* object store"):
            asked(Session("yarn", sees=False), tmp_path / "root")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_connect_server_is_elsewhere(tmp_path):
    remote = type("SparkSession", (Session,), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(UnseenError):
        asked(remote("local[*]", sees=False), tmp_path / "root")
    asked(found := remote("local[*]"), tmp_path / "root")
    assert found.jobs == 1


def test_executors_that_read_another_folder_of_that_name(tmp_path):
    session = Session("spark://m:7077")
    session._rows = lambda place: [("another",)] * FILES
    with pytest.raises(UnseenError):
        asked(session, tmp_path / "root")


@pytest.mark.parametrize("after", [False, True])
def test_files_that_another_process_sweeps_away_are_put_there_again(after, tmp_path):
    session = Session("spark://m:7077")
    layout = Layout(Location.of(str(tmp_path / "root")))

    def swept(place: Location) -> list[tuple[str]]:
        found = Session._rows(session, place)
        if session.jobs == 1:
            layout.sweep(())
            if not after:
                raise FileNotFoundError(f"File {place} does not exist")
        return found

    session._rows = swept
    asked(session, tmp_path / "root")
    assert session.jobs == (1 if after else 2)
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


def test_what_a_dead_process_asked_with_is_swept_away(tmp_path):
    session, layout = Session("spark://m:7077"), Layout(Location.of(str(tmp_path / "root")))

    def dies(place: Location) -> list[tuple[str]]:
        raise KeyboardInterrupt

    session._rows = dies
    with pytest.raises(KeyboardInterrupt):
        asked(session, tmp_path / "root")
    left = next(layout.scratches.list()[0].files())
    left.copy(left.parent / f"9{PARTIAL}")
    layout.sweep(())
    assert not list(layout.internal.files())


def test_a_root_that_may_not_be_written_to_is_not_asked_about(tmp_path):
    (tmp_path / "root").write_text("a file")
    session = Session("spark://m:7077", sees=False)
    asked(session, tmp_path / "root")
    assert session.looks == 0


def test_a_store_is_looked_up_by_local_spark_without_a_job(s3):
    session = Session("local[*]")
    for root in (f"{s3}/one", f"{s3}/two"):
        asked(session, root)
    assert (session.looks, session.jobs) == (1, 0)
    with pytest.raises(UnseenError) as found:
        asked(Session("local[*]", sees=False), f"{s3}/one")
    assert str(found.value) == (
        f"Spark can't read the root {s3}/one, which this process can: "
        "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found. "
        "Spark takes endpoint and credentials from its own settings; see docs/clusters.md."
    )
    assert Location.of(s3).list() == []


def test_a_pipeline_says_it_when_a_view_is_declared(tmp_path):
    import pyarrow as pa
    from deltalake import write_deltalake

    source = str(tmp_path / "t")
    write_deltalake(source, pa.table({"n": [1]}), configuration={"delta.enableChangeDataFeed": "true"})
    pipe = ivm.Pipeline("p", Session("spark://m:7077", sees=False), tmp_path / "root")
    pipe.source("t", source)
    with pytest.raises(UnseenError, match="doesn't see the root"):
        pipe.view("v", "SELECT n FROM t")
    assert not (tmp_path / "root").exists()

"""Every verb of a location, the same on a folder, in memory and on an S3 server.

And what is said where a store can't be used.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import ivm
from ivm.errors import ConcurrentRefreshError, ConfigError, SourceError, StorageError
from ivm.feed.deltas import source_delta
from ivm.feed.source import Source, inspect
from ivm.lake import native, parquet
from ivm.lake.commits import fingerprint
from ivm.names import parquet_ref, table_ref
from ivm.parameters import location
from ivm.storage import location as module
from ivm.storage import lock
from ivm.storage.location import Location, served


@pytest.fixture(params=["folder", "memory", "s3"])
def place(request, tmp_path, monkeypatch):
    """An empty place."""
    if request.param == "folder":
        return Location.of(str(tmp_path)) / "lake"
    if request.param == "memory":
        monkeypatch.setattr(module, "SCHEMES", ("memory",))
        module.opened.cache_clear()
        return Location.of("memory://m/lake")
    return Location.of(request.getfixturevalue("s3")) / "lake"


def test_write_read_list_and_drop(place):
    assert not place.exists()
    assert place.list() == []
    place.drop()
    for name in ("a/one", "a/two", "ab", "b/c/deep"):
        (place / name).write(name.encode())
    (place / "ab").write(b"again")
    assert [f.name for f in place.list()] == ["a", "ab", "b"]
    assert sorted(f.url[len(place.url) + 1 :] for f in place.files()) == ["a/one", "a/two", "ab", "b/c/deep"]
    assert (place / "ab").read() == b"again"
    assert (place / "b").exists()
    assert (place / "b/c/deep").exists()
    assert not (place / "b/c/de").exists()
    (place / "a").drop()
    assert not (place / "a").exists()
    assert (place / "ab").exists()
    (place / "ab").drop()
    assert [f.name for f in place.list()] == ["b"]


def test_what_is_not_there(place):
    assert (place / "x").stat() is None
    with pytest.raises(FileNotFoundError):
        (place / "x").read()
    assert (place / "x").swap(b"new", "tag") is None


def test_a_tag_tells_contents_apart(place):
    file = place / "f"
    file.write(b"one")
    first = file.stat()
    assert first is not None
    assert first.size == 3
    assert file.stat() == first
    file.write(b"two")
    assert file.stat().tag != first.tag


def test_of_many_that_create_one_succeeds(place):
    file, barrier = place / "f", threading.Barrier(8)

    def make(i: int) -> str | None:
        barrier.wait()
        return file.create(str(i).encode())

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(8)))
    (winner,) = [i for i, tag in enumerate(made) if tag is not None]
    assert file.read() == str(winner).encode()
    assert file.stat().tag == made[winner]


def test_of_many_that_swap_one_succeeds(place):
    file, barrier = place / "f", threading.Barrier(8)
    tag = file.create(b"first")

    def swap(i: int) -> str | None:
        barrier.wait()
        return file.swap(str(i).encode(), tag)

    with ThreadPoolExecutor(8) as pool:
        swapped = list(pool.map(swap, range(8)))
    (winner,) = [i for i, new in enumerate(swapped) if new is not None]
    assert file.read() == str(winner).encode()
    assert file.stat().tag == swapped[winner]
    assert [f.name for f in place.list()] == ["f"]  # nothing half-written is left


@pytest.fixture
def google(monkeypatch):
    """A place on Google Cloud Storage, as the library's own client speaks with it."""
    from tests.google import served as serving

    with serving() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        module.opened.cache_clear()
        yield Location.of("gs://b/lake")
    module.opened.cache_clear()


def test_google_swaps_by_generation(google):
    file = google / "f"
    tag = file.create(b"first")
    assert file.stat().tag == tag
    assert file.create(b"again") is None
    new = file.swap(b"second", tag)
    assert (file.read(), file.stat().tag) == (b"second", new)
    assert file.swap(b"third", tag) is None
    file.drop()
    assert file.swap(b"third", new) is None


def test_a_lock_on_google_is_renewed_released_and_taken_over(google, monkeypatch):
    file = google / "lock"
    monkeypatch.setattr(lock, "BEAT", 0.01)
    with lock.exclusive(file, "p"):
        deadline = time.monotonic() + 10
        while lock.Holder.read(file.read()).beat < 3:
            assert time.monotonic() < deadline, "it is renewed"
            time.sleep(0.01)
        with pytest.raises(ConcurrentRefreshError), lock.exclusive(file, "p"):
            pytest.fail("two hold it")
    assert not lock.Holder.read(file.read()).token, "it is released"
    file.write(lock.Holder(token="dead", host="elsewhere").written())
    monkeypatch.setattr(lock, "LEASE", -1.0)
    with lock.exclusive(file, "p") as fence:
        assert lock.Holder.read(file.read()).token not in ("", "dead")
        fence()


def test_copy_and_move(place):
    for name in ("t/a", "t/b/c"):
        (place / name).write(name.encode())
    (place / "t").copy(place / "u")
    (place / "t").move(place / "lost/t")
    assert [f.name for f in place.list()] == ["lost", "u"]
    assert (place / "lost/t/b/c").read() == (place / "u/b/c").read() == b"t/b/c"


def test_parquet_is_written_and_read_where_it_lies(place):
    place.make()
    for i in range(2):
        parquet.write(pa.table({"n": [i, i + 10]}), place / f"{i}.parquet", 1)
    assert sorted(parquet.dataset(place).to_table()["n"].to_pylist()) == [0, 1, 10, 11]
    assert parquet.dataset(place / "1.parquet").count_rows() == 2


def test_near_is_a_folder_of_this_machine(place):
    with place.near() as folder:
        assert "://" not in folder
        assert Location.of(folder).local


def test_what_marks_an_empty_folder_is_not_copied(s3):
    """Spark's S3A leaves an object of no bytes whose key ends with "/"."""
    from boto3 import client

    lake = Location.of(s3) / "lake"
    (lake / "a").write(b"1")
    client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"]).put_object(Bucket=s3[5:], Key="lake/empty/")
    lake.copy(Location.of(s3) / "copy")
    assert sorted((Location.of(s3) / "copy").files(), key=str) == [Location.of(s3) / "copy" / "a"]


@pytest.mark.parametrize("text", ["s3a://b/t/", "S3://b/t", "s3n://b/t", "s3://b/t"])
def test_one_store_has_one_spelling(text):
    assert Location.of(location(text, "x")).url == "s3://b/t"
    assert Location.of(location(text, "x")).spark == "s3a://b/t"
    assert table_ref(location(text, "x"), 3) == "delta.`s3a://b/t` VERSION AS OF 3"
    assert parquet_ref(location(text, "x")) == "parquet.`s3a://b/t`"


@pytest.mark.parametrize("url", ["abfss://c@a.dfs.core.windows.net/t", "gs://b/t"])
def test_other_stores_are_called_alike_by_all(url):
    assert Location.of(url).url == Location.of(url).spark == url


def test_schemes_that_only_spark_knows():
    assert served("hdfs://n/t") is None
    assert served("dbfs:/t") is None
    with pytest.raises(ConfigError, match="scheme that is not served here"):
        Location.of("hdfs://n/t")


def test_a_source_on_s3_is_read_and_counted_without_spark(s3):
    table, feed = f"{s3}/t", {"delta.enableChangeDataFeed": "true"}
    write_deltalake(table, pa.table({"n": [1, 2, 3]}), configuration=feed)
    write_deltalake(table, pa.table({"n": [4]}), mode="append")
    found = inspect(Source("t", location(table.replace("s3:", "s3a:"), "t")), None, "native")
    assert (found.by_spark, found.path, found.version) == ("", table, 1)
    assert found.fingerprint == fingerprint(table, 1) != fingerprint(table, 0)
    assert found.commits.gained(1, 1) == native.rows(native.table(table)) - 3 == 1
    assert found.commits.at(1) is not None
    assert source_delta(found, 0, 1, ["n"], lambda: pytest.fail("Spark was asked"))["n"].to_pylist() == [4]


def test_of_processes_that_take_a_lock_one_succeeds(s3):
    taker = (
        "import sys, time\nfrom ivm.errors import ConcurrentRefreshError\n"
        "from ivm.storage.location import Location\nfrom ivm.storage.lock import exclusive\n"
        "try:\n    with exclusive(Location.of(sys.argv[1]), 'p'):\n"
        "        print('held', flush=True)\n        sys.stdin.read()\n"
        "except ConcurrentRefreshError:\n    print('refused', flush=True)\n"
    )
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", taker, f"{s3}/lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = [t.stdout.readline().strip() for t in takers]
    for t in takers:
        t.communicate()
    assert sorted(said) == ["held", "refused", "refused", "refused"]


# -- bad input: one sentence, and nothing is written -------------------------------------------------


@pytest.fixture
def nothing_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.iterdir())


def test_a_bucket_that_is_not_there(s3, nothing_written):
    with pytest.raises(
        StorageError, match=r"There is no bucket 'no-such-bucket' for s3://no-such-bucket/lake. Create it"
    ):
        ivm.Pipeline("p", root="s3://no-such-bucket/lake")
    pipe = ivm.Pipeline("p", root=f"{s3}/lake", lane="native")
    with pytest.raises(SourceError, match=r"Source 't': There is no bucket 'no-such-bucket'"):
        pipe.source("t", "s3://no-such-bucket/t")
    with pytest.raises(SourceError, match="there is nothing at"):
        pipe.source("t", f"{s3}/t")
    assert Location.of(s3).list() == []


def test_a_store_that_does_not_answer(nothing_written):
    with pytest.raises(StorageError, match=r"s3://nowhere/p can't be reached: .*AWS_ENDPOINT_URL") as found:
        ivm.Pipeline("p", root="s3://nowhere/p")
    assert "\n" not in str(found.value)


def test_credentials_that_are_refused(s3, s3_server, nothing_written):
    from tests.s3 import refuse

    refuse(s3_server["AWS_ENDPOINT_URL"], 0)
    try:
        with pytest.raises(
            StorageError, match=r"The store refuses the credentials for s3://.*/lake.*AWS_SECRET_ACCESS_KEY"
        ) as found:
            ivm.Pipeline("p", root=f"{s3}/lake")
    finally:
        refuse(s3_server["AWS_ENDPOINT_URL"], float("inf"))
    assert "testing" not in str(found.value)


@pytest.mark.parametrize("root", ["hdfs://n/lake", "ftp://n/lake", "dbfs:/lake"])
def test_a_root_of_a_scheme_that_is_not_served(root, nothing_written):
    with pytest.raises(ConfigError, match=r"has a scheme that is not served here\. Use a folder, or one of: s3://"):
        ivm.Pipeline("p", root=root)


def test_a_lane_that_can_not_do_what_is_asked(tmp_path):
    """delta-rs alone shall read what only Spark may know."""
    pipe = ivm.Pipeline("p", root=tmp_path / "root", lane="native")
    with pytest.raises(SourceError, match=r"as the lane native asks: it doesn't serve .* Set lane auto"):
        pipe.source("t", "ftp://n/t")
    with pytest.raises(SourceError, match=r"needs a Spark session to be read\. Pass spark="):
        inspect(Source("t", "hdfs://n/t"), None, "auto")
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("given", ["./lake/orders", "lake/orders", "../{here}/lake/orders"])
def test_a_relative_source_is_the_table_that_it_was_when_it_was_declared(tmp_path, monkeypatch, given):
    """Spark reads no relative path: a view over one was refreshed, and could not be verified."""
    write_deltalake(
        tmp_path / "lake" / "orders", pa.table({"id": [1]}), configuration={"delta.enableChangeDataFeed": "true"}
    )
    monkeypatch.chdir(tmp_path)
    pipe = ivm.Pipeline("relative", root=tmp_path / "out")
    pipe.source("orders", given.format(here=tmp_path.name))
    monkeypatch.chdir("/")
    assert pipe.context.sources["orders"].location == str(tmp_path / "lake" / "orders")

"""Which jars Spark gets: those of the wanted versions, that were put into the folder or fetched once. No network."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from ivm import jars
from ivm.errors import ConfigError

#: What the resolver would bring for a set, as it calls it.
DELTA = ("io.delta_delta-spark_4.2_2.13-{0}.jar", "io.delta_delta-storage-{0}.jar", "org.antlr_antlr4-runtime-4.13.jar")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("IVM_JARS", str(tmp_path / "jars"))
    monkeypatch.setattr(jars.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stderr="no network"))
    return tmp_path / "jars"


@pytest.fixture
def network(folder, monkeypatch):
    """A resolver that finds everything; the versions that it was asked for."""
    asked = []

    def run(command, **_):
        place = Path(re.search(r"'spark.jars.ivy', '([^']*)'", command[2])[1]) / "jars"
        version = re.search(r"delta-spark_4.2_2.13:([\d.]+)", command[2])[1]
        place.mkdir(parents=True)
        for name in DELTA:
            (place / name.format(version)).touch()
        asked.append(version)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(jars.subprocess, "run", run)
    return asked


def put(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def wanted(monkeypatch, version):
    monkeypatch.setattr(jars, "DELTA_PACKAGE", f"io.delta:delta-spark_4.2_2.13:{version}")


def names(paths):
    return [Path(p).name for p in paths]


@pytest.mark.parametrize(("what", "below"), [(jars.delta_jars, "."), (jars.s3_jars, "s3")])
def test_without_network_jars_are_put_there_as_the_message_says(folder, what, below):
    with pytest.raises(ConfigError, match="could not be fetched: no network") as found:
        what()
    place, listed = re.search(r"put the jars into (\S+) .* of them: (.*), and those", str(found.value)).groups()
    assert Path(place) == folder / below
    assert sorted(p.name for p in Path(place).iterdir()) == [], "nothing is left"
    named = listed.split(", ")
    put(Path(place), *named, "needed-1.0.jar")
    assert names(what()) == sorted([*named, "needed-1.0.jar"])


def test_what_an_earlier_version_fetched_is_used(folder, monkeypatch):
    """As the resolver calls them, or without the group; beside a stamp."""
    wanted(monkeypatch, "4.4.0")
    put(folder, "delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar", "io.delta_delta-spark_4.2_2.13_4.4.0.done")
    assert names(jars.delta_jars()) == ["delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"]
    put(folder / "s3", *(f"{p.split(':')[0]}_{p.split(':')[1]}-{p.split(':')[2]}.jar" for p in jars.S3_PACKAGES))
    assert len(jars.s3_jars()) == len(jars.S3_PACKAGES)


def test_jars_of_two_versions_are_never_given_out_together(network, folder, monkeypatch):
    put(folder, "delta-spark_4.2_2.13-4.3.0.jar", "delta-storage-4.3.0.jar")
    for version in ("4.4.0", "4.5.0", "4.4.0", "4.3.0"):
        wanted(monkeypatch, version)
        assert names(jars.delta_jars()) == [f"delta-spark_4.2_2.13-{version}.jar", f"delta-storage-{version}.jar"]
    assert network == ["4.4.0", "4.5.0"], "each is fetched once, and not what was put there"


def test_what_was_fetched_and_is_not_whole_any_more_is_fetched_again(network, monkeypatch):
    wanted(monkeypatch, "4.4.0")
    first, *rest = jars.delta_jars()
    Path(first).unlink()
    assert jars.delta_jars() == [first, *rest]
    assert network == ["4.4.0", "4.4.0"]


def test_a_folder_with_two_versions_is_not_used(network, folder, monkeypatch):
    put(folder, *(f"delta-spark_4.2_2.13-{v}.jar" for v in ("4.3.0", "4.4.0")))
    wanted(monkeypatch, "4.4.0")
    assert names(jars.delta_jars()) == ["delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"]
    assert {Path(p).parent for p in jars.delta_jars()} != {folder}

"""The JVM that ivm starts shares the classes that an earlier one has loaded. No JVM is started."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

import pytest

from ivm import jvm

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def jars(tmp_path, monkeypatch):
    """Two jars in a folder of their own, beside a Java and a Spark that are files only."""
    monkeypatch.setenv("IVM_JARS", str(tmp_path / "with space"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    for name in (jvm.SHARING, *jvm._OTHER_OPTIONS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jvm, "spark_home", lambda: tmp_path / "spark")
    for name in ("java/bin/java", "java/lib/server/libjvm.so", "spark/jars/spark-core.jar", "a.jar", "b.jar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return [str(tmp_path / name) for name in ("a.jar", "b.jar")]


def told(jars, brief: bool) -> dict[str, str]:
    """The options of a JVM by name; of those that have no value, themselves."""
    options = shlex.split(jvm.conf(jars, brief).get(OPTIONS, ""))
    return dict(o.split("=", 1) if "=" in o else (o, "") for o in options)


def archive(jars) -> Path:
    return Path(told(jars, brief=True)["-XX:ArchiveClassesAtExit"])


def write(path: Path, head: bytes = jvm._WHOLE) -> None:
    path.write_bytes(head + b"classes")


def test_only_a_brief_jvm_makes_the_archive_and_all_start_from_it(jars):
    assert told(jars, brief=False).keys() == {jvm.COLLECTOR}
    made = archive(jars)
    assert made.parent.name == "classes"
    assert "-XX:TieredStopAtLevel" in told(jars, brief=True)
    write(made)
    for brief in (True, False):
        options = told(jars, brief)
        assert options["-XX:SharedArchiveFile"] == str(made)
        assert "-XX:ArchiveClassesAtExit" not in options
        # What a JVM says of archives goes to stdout, which is the command's.
        assert options["-Xlog:all"] == "error:stderr"
    assert jvm.conf(jars, brief=False)["spark.driver.extraClassPath"] == os.pathsep.join(jars)


def test_one_that_is_not_whole_is_made_again(jars):
    made = archive(jars)
    write(made, head=bytes(4))  # its JVM was killed before it wrote the head
    assert archive(jars) == made
    made.write_bytes(b"")
    assert archive(jars) == made


@pytest.mark.parametrize(
    "changed", ["java/lib/server/libjvm.so", "spark/jars/spark-core.jar", "spark/jars/new.jar", "a.jar"]
)
def test_another_java_spark_or_jar_has_another(jars, tmp_path, changed):
    before = archive(jars)
    (tmp_path / changed).write_text("another version")
    assert archive(jars) != before


@pytest.mark.parametrize("why", ["off", "no java", "another virtual machine", "read-only"])
def test_nothing_is_shared_where_it_cannot_be(jars, tmp_path, monkeypatch, why):
    match why:
        case "off":
            monkeypatch.setenv(jvm.SHARING, "off")
        case "no java":
            monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
        case "another virtual machine":
            (tmp_path / "java" / "release").write_text('JVM_VARIANT="Openj9"\n')
        case "read-only":
            (tmp_path / "with space").write_text("a file where the folder should be")
    assert told(jars, brief=True).keys() == {jvm.COLLECTOR, "-XX:TieredStopAtLevel", "-XX:ReservedCodeCacheSize"}
    assert told(jars, brief=False).keys() == {jvm.COLLECTOR}


@pytest.mark.parametrize("name", jvm._OTHER_OPTIONS)
def test_a_collector_that_somebody_chose_stays(jars, monkeypatch, name):
    """A JVM that is told of two doesn't start."""
    monkeypatch.setenv(name, "-Dx=UseG1GC -Xmx1g")
    assert told(jars, brief=False).keys() == {jvm.COLLECTOR}
    for chosen in ("-XX:+UseG1GC", "-Xmx1g -XX:+UseZGC", "-XX:-UseParallelGC"):
        monkeypatch.setenv(name, chosen)
        assert OPTIONS not in jvm.conf(jars, brief=False)


def test_what_nobody_has_started_from_for_long_is_removed(jars):
    made = archive(jars)
    old, used = made.with_name("old.jsa"), made.with_name("used.jsa")
    for path, days in ((old, 31), (used, 1)):
        write(path)
        os.utime(path, (time.time() - days * 86400,) * 2)
    archive(jars)
    assert used.exists()
    assert not old.exists()


def test_starting_from_it_keeps_it(jars):
    made = archive(jars)
    write(made)
    os.utime(made, (1, 1))
    told(jars, brief=False)
    assert time.time() - made.stat().st_mtime < 60


def test_an_archive_of_another_user_is_started_from(jars, monkeypatch):
    made = archive(jars)
    write(made)

    def refused(_):
        raise PermissionError("not yours")

    monkeypatch.setattr(jvm.os, "utime", refused)
    assert told(jars, brief=False)["-XX:SharedArchiveFile"] == str(made)

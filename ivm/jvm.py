"""The JVM of a local Spark that ivm starts: what it is told so that it starts and warms up soon.

Class data sharing (JEP 350): a JVM writes the classes that it has loaded to an archive as it ends, and later ones map
them from there, parsed and verified. Only classes of its own class path are shared, so the Delta jars stand on that.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ivm.jars import jars_folder, spark_home

#: A JVM that lives for one small refresh: most of what its second compiler makes would hardly be run, and it takes the
#: cores from the refresh. The code cache is that of a JVM with both.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
#: The collector that takes the least of the cores from a refresh: its pauses, which G1 spares those who wait for
#: answers, keep nobody waiting here, and nothing marks the heap beside the statements.
COLLECTOR = "-XX:+UseParallelGC"
#: Where options of a JVM come from as well. One that is told of two collectors doesn't start.
_OTHER_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
#: Of classes that it can't share, or an archive that doesn't fit, a JVM would tell on stdout, which is the command's.
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"
#: An archive begins so when it is whole: the head is written last. (HotSpot's CDS_DYNAMIC_ARCHIVE_MAGIC.)
_WHOLE = 0xF00BABA8.to_bytes(4, sys.byteorder)
#: Switches sharing off where it is "off": an archive has some 200 MB.
SHARING = "IVM_CLASS_SHARING"
#: Archives that no JVM was started from for so long are removed.
_UNUSED_SECONDS = 30 * 24 * 3600


def conf(jars: Sequence[str], brief: bool) -> dict[str, str]:
    """Settings of a session whose JVM ivm starts on this machine, with these jars on its class path.

    A JVM that is `brief` warms up sooner, is slower in the long run, and leaves the archive behind if there is none.
    """
    told = [*_collector(), *([BRIEF] if brief else []), *_shared(jars, brief)]
    return {
        "spark.driver.extraClassPath": os.pathsep.join(jars),
        **({"spark.driver.extraJavaOptions": " ".join(told)} if told else {}),
    }


def _collector() -> list[str]:
    """The option of our collector, where nobody chose one."""
    chosen = any(re.search(r"-XX:[+-]Use\w+GC\b", os.environ.get(name, "")) for name in _OTHER_OPTIONS)
    return [] if chosen else [COLLECTOR]


def _shared(jars: Sequence[str], makes: bool) -> list[str]:
    """The options by which a JVM starts from the archive, or makes it."""
    archive = _archive(jars)
    if archive is None:
        return []
    if _is_whole(archive):
        with suppress(OSError):  # another user's
            os.utime(archive)
        return [shlex.quote(f"-XX:SharedArchiveFile={archive}"), _SILENT]
    if not makes:
        return []
    _clear(archive.parent)
    return [shlex.quote(f"-XX:ArchiveClassesAtExit={archive}"), _SILENT]


def _archive(jars: Sequence[str]) -> Path | None:
    """Where the archive for this Java, this Spark and these jars lies; None where there can't be one."""
    java, folder = _java(), jars_folder() / "classes"
    if java is None or os.environ.get(SHARING) == "off":
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    read = [java, *map(Path, jars), *sorted((spark_home() / "jars").glob("*.jar"))]
    told = "\n".join(f"{p} {p.stat().st_size} {p.stat().st_mtime_ns}" for p in read)
    return folder / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.jsa"


def _java() -> Path | None:
    """HotSpot's library of the Java that Spark starts: other virtual machines have other options."""
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if found is None:
        return None
    root = Path(found).resolve().parent.parent
    library, release = root / "lib" / "server" / "libjvm.so", root / "release"
    other = release.is_file() and "openj9" in release.read_text(errors="replace").lower()
    return library if library.is_file() and not other else None


def _is_whole(archive: Path) -> bool:
    """Whether a JVM came to the end of writing it (one may have been killed meanwhile)."""
    try:
        with archive.open("rb") as file:
            head = file.read(len(_WHOLE))
    except OSError:
        return False
    return head == _WHOLE


def _clear(folder: Path) -> None:
    """Remove what hasn't been used for long."""
    for old in folder.glob("*.jsa"):
        with suppress(OSError):  # another process removed it meanwhile
            if old.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                old.unlink()

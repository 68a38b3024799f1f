"""The jars that a local Spark needs, each set fetched once through Spark's own resolver.

Delta       always
S3A         where a source or a root lies on s3://: Hadoop's client, and of the AWS SDK the modules that it calls
            (13 MB; the bundle that it asks for has 600)

Invariant: jars of one version only are given out. What somebody put into the folder counts where it has the versions
that are wanted, and no others; what is fetched lies in a folder below it that is called by its versions.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ivm.errors import ConfigError

#: The jar that fits pyspark 4.2; Delta 4.4.1's jar for Spark 4.2 is not published.
DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
#: pyspark 4.2 ships Hadoop 3.5.0, whose client asks for these.
_SDK = "2.35.4"
S3_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    *(
        f"software.amazon.awssdk:{module}:{_SDK}"
        for module in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
    ),
)
_S3_LEFT_OUT = "software.amazon.awssdk:bundle"
#: Of what the resolver brings the rest is part of pyspark already.
_S3_KEPT = ("org.apache.hadoop_hadoop-aws", "software.amazon.", "org.reactivestreams", "org.wildfly.openssl")


def jars_folder() -> Path:
    """Where the jars lie: $IVM_JARS, else a cache folder of the user."""
    chosen = os.environ.get("IVM_JARS")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ivm" / "jars"


def spark_home() -> Path:
    """The folder of the Spark that is installed with pyspark, which isn't imported to tell."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigError("pyspark is not installed.", "Install it: pip install pyspark==4.2.0.")
    return Path(found.origin).parent


def delta_jars() -> list[str]:
    """The Delta jars. Raises ConfigError where they can't be fetched."""
    return _Jars("Delta", jars_folder(), (DELTA_PACKAGE,), "", ("io.delta_",)).found()


def s3_jars() -> list[str]:
    """The jars by which Spark reads and writes s3a://. Raises ConfigError where they can't be fetched."""
    return _Jars("S3", jars_folder() / "s3", S3_PACKAGES, _S3_LEFT_OUT, _S3_KEPT).found()


@dataclass(frozen=True)
class _Jars:
    """One set: the `packages` and what they need, of which those are `kept` whose names begin so."""

    what: str
    folder: Path
    packages: tuple[str, ...]
    left_out: str
    kept: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """What the packages' own jars are called, by Maven; the resolver puts their group before that."""
        return [f"{artifact}-{version}.jar" for _, artifact, version in map(_parts, self.packages)]

    @property
    def fetched(self) -> Path:
        """Where this set lies once it is fetched, as a whole."""
        told = hashlib.sha256(" ".join(self.packages).encode()).hexdigest()[:8]
        return self.folder / f"{self.names[0].removesuffix('.jar')}_{told}"

    def found(self) -> list[str]:
        """The jars' paths, fetched if they aren't there."""
        there = next((f for f in (self.folder, self.fetched) if self._lie_in(f)), None)
        if there is None:
            self._fetch()
        return sorted(str(p) for p in (there or self.fetched).glob("*.jar"))

    def _lie_in(self, folder: Path) -> bool:
        """Whether a folder has each package's jar in the wanted version, and in no other."""
        jars = [p.name for p in folder.glob("*.jar")]
        return all(
            {m[1] for jar in jars if (m := re.fullmatch(rf"(?:.*_)?{re.escape(artifact)}-(\d.*)\.jar", jar))}
            == {version}
            for _, artifact, version in map(_parts, self.packages)
        )

    def _fetch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            ivy, made = Path(place) / "ivy", Path(place) / "jars"
            done = subprocess.run(
                [sys.executable, "-c", self._script(ivy)], capture_output=True, text=True, check=False
            )
            found = [jar for jar in (ivy / "jars").glob("*.jar") if jar.name.startswith(self.kept)]
            if done.returncode or not found:
                last = (done.stderr or done.stdout).strip().splitlines()[-1:]
                raise ConfigError(
                    f"The {self.what} jars ({self.packages[0]}) could not be fetched: {' '.join(last)}",
                    (
                        f"Check the network, or put the jars into {self.folder} yourself (IVM_JARS sets where), "
                        f"without other versions of them: {', '.join(self.names)}, and those that they need."
                    ),
                )
            made.mkdir()
            for jar in found:
                shutil.copy(jar, made / jar.name.removeprefix("io.delta_"))
            if not self._lie_in(self.fetched):  # another process may have been first
                shutil.rmtree(self.fetched, ignore_errors=True)
                made.rename(self.fetched)

    def _script(self, ivy: Path) -> str:
        """A Spark that starts with the packages, and so resolves them."""
        return (
            "from pyspark.sql import SparkSession as S\n"
            f"S.builder.master('local[1]').config('spark.jars.packages', {','.join(self.packages)!r})"
            f".config('spark.jars.excludes', {self.left_out!r}).config('spark.jars.ivy', {str(ivy)!r})"
            ".config('spark.ui.enabled', 'false').config('spark.driver.host', '127.0.0.1')"
            ".config('spark.driver.bindAddress', '127.0.0.1').getOrCreate().stop()\n"
        )


def _parts(package: str) -> list[str]:
    """Group, artifact and version."""
    return package.split(":")

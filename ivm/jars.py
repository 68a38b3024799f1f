"""The jars that a local Spark needs, each set fetched once through Spark's own resolver.

Delta       always
S3A         where a source or a root lies on s3://: Hadoop's client, and of the AWS SDK the modules that it calls
            (13 MB; the bundle that it asks for has 600)
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
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
    folder = jars_folder()
    stamp = folder / (DELTA_PACKAGE.replace(":", "_") + ".done")
    if not stamp.exists():
        _fetch(folder, (DELTA_PACKAGE,), "", ("io.delta_",), "Delta")
        stamp.touch()
    return sorted(str(p) for p in folder.glob("*.jar"))


def s3_jars() -> list[str]:
    """The jars by which Spark reads and writes s3a://. Raises ConfigError where they can't be fetched."""
    folder = jars_folder() / "s3"
    stamp = folder / (hashlib.sha256(" ".join(S3_PACKAGES).encode()).hexdigest()[:16] + ".done")
    if not stamp.exists():
        _fetch(folder, S3_PACKAGES, _S3_LEFT_OUT, _S3_KEPT, "S3")
        stamp.touch()
    return sorted(str(p) for p in folder.glob("*.jar"))


def _fetch(folder: Path, packages: tuple[str, ...], left_out: str, kept: tuple[str, ...], what: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ivy = folder / "ivy"
    script = (
        "from pyspark.sql import SparkSession as S\n"
        f"S.builder.master('local[1]').config('spark.jars.packages', {','.join(packages)!r})"
        f".config('spark.jars.excludes', {left_out!r}).config('spark.jars.ivy', {str(ivy)!r})"
        ".config('spark.ui.enabled', 'false').config('spark.driver.host', '127.0.0.1')"
        ".config('spark.driver.bindAddress', '127.0.0.1').getOrCreate().stop()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    found = [jar for jar in (ivy / "jars").glob("*.jar") if jar.name.startswith(kept)]
    if done.returncode or not found:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ConfigError(
            f"The {what} jars ({packages[0]}) could not be fetched into {folder}: {' '.join(last)}",
            (
                "Check the network, or put the jars there yourself, with those that they need, "
                "and set IVM_JARS to the folder."
            ),
        )
    for jar in found:
        shutil.copy(jar, folder / jar.name.removeprefix("io.delta_"))
    shutil.rmtree(ivy)

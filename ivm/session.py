"""Spark sessions: local with the Delta jars resolved once, or a Spark Connect endpoint.

Also answers the compiler's questions (`SparkAnalyzer`). Public Spark API only, so all of it runs over Connect.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, cast

from ivm import jvm
from ivm.errors import ViewError
from ivm.jars import delta_jars, s3_jars, spark_home
from ivm.names import ident
from ivm.plan.nodes import Column
from ivm.sql.analyzer import Function
from ivm.sql.plan_text import inlined, numbered
from ivm.sql.substitution import OPENED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# PySpark prints each refused statement's JVM stack trace; our errors carry Spark's sentence instead.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)

#: What a session that runs ivm needs (Delta), and what makes one quick that ivm starts.
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
COMMON_CONF = {
    "spark.databricks.delta.snapshotPartitions": "1",
    # Delta keeps some 3 MB for each table it has read, for an hour after the last time: measured, 300 MB for 90 tables.
    "spark.databricks.delta.delta.log.cacheSize": "100",
    # The statements of some hundred views; with Spark's 100 each would be compiled again in each epoch.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.driver.memory": os.environ.get("IVM_DRIVER_MEMORY", "4g"),
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}
#: Where driver and executors are one process of this machine.
LOCAL_CONF = {
    **COMMON_CONF,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(max(2, 2 * (os.cpu_count() or 1))),
    # For where rows are many: adaptive execution puts small parts together again, and nothing splits large ones. In
    # four parts a refresh after half of TPC-H's SF10 had changed found no memory in a heap of 6 GiB.
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "64",
    # Spark's 10,000 tasks for VACUUM to list one folder took a minute and a half on two cores.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(2 * (os.cpu_count() or 1)),
    # Each aggregate, sort and join of a task takes a page before its first row. Spark's 64 MB (of a heap of 4 GB) cost
    # more than the work on few rows; as objects of many regions they make the collector mark the heap again and again.
    "spark.buffer.pageSize": "2m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Python functions run in this environment, not in whichever python3 is first on the path.
    "spark.pyspark.python": sys.executable,
}
#: For statements over small slices: planning and code generation would cost more than the work.
SMALL_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    # Projections, too: their code is written anew each time, to be found in the cache by its text.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # It only costs planning time here, and Spark 4.2's fails on a UNION of selects with EXISTS as a value.
    "spark.sql.constraintPropagation.enabled": "false",
}
#: For statements over more: compiled (once for each form of plan),
#: and a few megabytes are already read by several cores.
LARGE_CONF = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.files.openCostInBytes": "262144",
}


def s3_conf() -> dict[str, str]:
    """Settings by which Spark finds the S3 store that delta-rs finds in the environment.

    Credentials it takes from there itself.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    conf = {"spark.hadoop.fs.s3a.endpoint.region": region} if region else {}
    if endpoint:
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
        conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(endpoint.startswith("https://")).lower()
    return conf


def get_session(remote: str | None = None, schemes: Collection[str] = (), brief: bool = False) -> SparkSession:
    """A Spark session: `remote` or $IVM_SPARK_REMOTE (sc://...) if given, else one that is started for these `schemes`.

    A session that this process has already (a notebook) is used as it is. Under spark-submit, master, jars and stores
    are its own, and only Delta is switched on. One that is started here is local, or runs on the cluster
    $IVM_SPARK_MASTER; a local one that is `brief` starts and warms up sooner, and is slower in the long run.
    """
    from pyspark.sql import SparkSession

    active = active_session()
    if active is not None:
        return active
    remote = remote or os.environ.get("IVM_SPARK_REMOTE")
    if remote:
        return SparkSession.builder.remote(remote).getOrCreate()
    if SUBMITTED in os.environ:
        return _with(DELTA_CONF)
    master = os.environ.get("IVM_SPARK_MASTER", "local[*]")
    local = master.startswith("local")
    if local:
        # Python functions run with the packages of this interpreter, not of whatever `python3` is first on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = started_conf(schemes, local)
    if local and starts_plain():
        conf |= jvm.conf(conf.pop("spark.jars").split(","), brief)
    return _with({**conf, "spark.master": master})


def active_session() -> SparkSession | None:
    """The session that is active in this thread, or was begun in another one of this process: somebody else's.

    Of the latter PySpark would give us the same one, and set on it what we ask for.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    return SparkSession.builder.getOrCreate() if active is None and _elsewhere() else active


#: spark-submit sets it for the process that it starts.
SUBMITTED = "PYSPARK_GATEWAY_PORT"


#: Where one of these is set, a session has settings of somebody else's.
_OTHERS = (
    "IVM_SPARK_REMOTE", "SPARK_REMOTE", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS",
    "DATABRICKS_RUNTIME_VERSION",
)  # fmt: skip


def starts_plain() -> bool:
    """Whether `get_session` would start a session with Spark's defaults and ours, and no settings of anybody else."""
    loaded = sys.modules.get("pyspark.sql")  # which isn't imported to ask: without it no session is active
    if loaded is not None and loaded.SparkSession.getActiveSession() is not None:
        return False
    if _elsewhere():
        return False
    return not any(os.environ.get(name) for name in (SUBMITTED, *_OTHERS)) and not (spark_home() / "conf").exists()


def _elsewhere() -> bool:
    """Whether a Spark runs in this process whose session is another thread's, which isn't active here."""
    loaded = sys.modules.get("pyspark")
    context = getattr(loaded, "SparkContext", None)
    return getattr(context, "_active_spark_context", None) is not None


def apart(spark: SparkSession) -> SparkSession:
    """A session with the settings, temporary views and functions that `spark` has now, apart from then on.

    Variables are not among them. A session that can't be cloned is given back itself.
    """
    clone = getattr(spark, "cloneSession", None)  # Spark Connect's
    if clone is not None:
        from pyspark.errors import PySparkException

        try:
            return cast("SparkSession", clone())
        except PySparkException:  # a server before Spark 4.1
            return spark
    java = getattr(spark, "_jsparkSession", None)
    if java is None:
        return spark
    # PySpark has no name for it where the driver is this process. It takes some milliseconds.
    return type(spark)(spark._sc, java.cloneSession())


def _with(conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("ivm")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def started_conf(schemes: Collection[str] = (), local: bool = True) -> dict[str, str]:
    """The settings of a Spark that ivm starts, with the jars for these schemes.

    Raises ConfigError where the jars can't be fetched.
    """
    on_s3 = "s3" in schemes
    jars = [*delta_jars(), *(s3_jars() if on_s3 else [])]
    own = LOCAL_CONF if local else COMMON_CONF
    return {**DELTA_CONF, **own, **(s3_conf() if on_s3 else {}), "spark.jars": ",".join(jars)}


def statements(spark: SparkSession, small: bool) -> AbstractContextManager[None]:
    """Run statements with SMALL_CONF or LARGE_CONF, then restore the session's own settings."""
    return configured(spark, SMALL_CONF if small else LARGE_CONF)


@contextmanager
def configured(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Run statements with these settings, then restore the session's own."""
    before = {key: spark.conf.get(key, None) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, earlier in before.items():
            spark.conf.unset(key) if earlier is None else spark.conf.set(key, earlier)


#: Days and times before 1582 as delta-rs, DuckDB and Arrow read and write them (see `ivm.lake.calendars`). How files
#: are read is told by their footers; the setting is for those of other writers than Spark, as ours are.
NEW_CALENDAR = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}

#: No text that is a view's holds `${` (see `ivm.sql.substitution`); what stands in a statement of ours is a value or a
#: name that does.
AS_WRITTEN = {"spark.sql.variable.substitute": "false"}
#: What a step runs its statements under.
STEP_CONF = {**NEW_CALENDAR, **AS_WRITTEN}


def as_written(spark: SparkSession, *statements: str) -> AbstractContextManager[None]:
    """Run statements of ours, outside of a step, with each `${...}` in them as it is; most hold none."""
    return configured(spark, AS_WRITTEN if any(OPENED in sql for sql in statements) else {})


#: How Spark writes what the native lane, or Spark itself, must read again.
_STORING = {
    # What Spark 4.2 notes of a pushed scan of VARIANTs gets into a struct's stored type, which it can't read again.
    "spark.sql.variant.pushVariantIntoScan": "false",
    # Spark's default, INT96, is read by delta-rs as nanoseconds: other times come out before 1678 and after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_storing = threading.Lock()


@contextmanager
def stored_as_read(spark: SparkSession, columns: Sequence[Column]) -> Iterator[None]:
    """Write rows with timestamps or VARIANTs in the forms that all readers of ours read alike."""
    if not any("variant" in c.type or "timestamp" in c.type for c in columns):
        yield
        return
    with _storing, configured(spark, _STORING):
        yield


def error_text(error: Exception) -> str:
    """Spark's own message: the condition, the sentence and the line, without the plan and the stack.

    >>> error_text(Exception("[X] Column `a` cannot be resolved. SQLSTATE: 42703; line 3 pos 7;\\n'Project"))
    '[X] Column `a` cannot be resolved. SQLSTATE: 42703 (line 3)'
    >>> error_text(Exception("An error occurred while calling o58.sql.\\n: org.x.NoSchemeException: ftx\\n\\tat org.x"))
    'org.x.NoSchemeException: ftx'
    """
    text = re.sub(
        r"\s*(?:\x1b\[[0-9;]*m)?↳(?:\x1b\[[0-9;]*m)?\s*", ": ", str(error).strip()
    )  # delta-rs draws its causes as a tree
    text = re.sub(r"^An error occurred while calling [\w.]+?\.\s*:\s*", "", text)  # of Py4J, which knows no better
    line = re.search(r"\(?\bline (\d+),? pos \d+\)?", text)
    for mark in ("\n\nJVM stacktrace", "\n\tat ", "\n\n== SQL", "\n== SQL", "\n\n'", "; line ", "\n'", ";\n"):
        text = text.split(mark)[0]
    # The column is left out: tables are replaced by their types before Spark is asked, so it would be another one.
    text = re.sub(r"\s*\(line \d+,? pos \d+\)", "", text).strip()
    return f"{text} (line {line.group(1)})" if line else text


#: Classes of SQLSTATE that say something of the statement and its data, not of the machine or the state: cardinality,
#: data, syntax, raise_error().
_OF_THE_STATEMENT = ("21", "22", "42", "P0")


def own_condition(text: str) -> str:
    """The error condition of Spark's that a message begins with.

    Empty where neither the statement itself nor its data are to blame.

    >>> own_condition("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012")
    'DIVIDE_BY_ZERO'
    >>> own_condition("[FAILED_READ_FILE] gone. SQLSTATE: KD001")
    ''
    """
    found = re.match(r"\[([A-Z][A-Z0-9_.]+)\].*SQLSTATE: (\w\w)", text.strip(), re.DOTALL)
    return found.group(1) if found and found.group(2) in _OF_THE_STATEMENT else ""


_CTE_POLICY = "spark.sql.legacy.ctePrecedencePolicy"
#: Plans are cut off at so many fields.
_PLAN_FIELDS = "spark.sql.debug.maxToStringFields"


_EXCLUDED = "spark.sql.optimizer.excludedRules"
#: Rules that go by the few rows of an analysis, and leave names out: what is made of constants is computed, a LIMIT of
#: more rows goes (and with it the order below), and nothing is left of an OFFSET of more.
_BY_ROWS = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in ("ConvertToLocalRelation", "EliminateLimits", "EliminateOffsets")
)


def _optimized(spark: SparkSession, sql: str) -> str:
    """The optimized plan of a statement as Spark writes it.

    By EXPLAIN, which goes by the settings of this session: a plan's own text is cut off by those of the caller's.
    """
    shown = "\n".join(str(row[0]) for row in spark.sql(f"EXPLAIN EXTENDED {sql}").collect())
    return shown.partition("== Optimized Logical Plan ==")[2].partition("== Physical Plan ==")[0]


class SparkAnalyzer:
    """Answers `ivm.sql.analyzer.Analyzer` with Spark; nothing is executed.

    What compares statements under a setting of its own is asked in a session apart, made when it is first needed.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @functools.cached_property
    def _aside(self) -> SparkSession:
        return apart(self.spark)

    def _inlined(self, spark: SparkSession, one: str, other: str) -> bool:
        """Whether two statements are the same once each WITH is inlined, as by this policy it is."""
        with configured(spark, {_CTE_POLICY: "LEGACY"}), as_written(spark, one, other):
            return bool(spark.sql(one).sameSemantics(spark.sql(other)))

    def schema(self, sql: str) -> tuple[Column, ...]:
        return tuple(Column(f.name, f.dataType.simpleString()) for f in self.struct(sql).fields)

    def struct(self, sql: str) -> Any:
        from pyspark.errors import PySparkException

        try:
            with as_written(self.spark, sql):
                return self.spark.sql(sql).schema
        except PySparkException as error:
            raise ViewError(
                f"Spark refuses this SQL: {error_text(error)}", "Correct it there; a view is one SELECT in Spark SQL."
            ) from error
        except Exception as error:  # a defect inside Spark arrives as whatever its client makes of it
            raise ViewError(f"Spark fails on this SQL: {error_text(error)}", "Write it in a plainer form.") from error

    def same(self, one: str, other: str) -> bool:
        from pyspark.errors import PySparkException

        try:
            with as_written(self.spark, one, other):
                if self.spark.sql(one).sameSemantics(self.spark.sql(other)):
                    return True
        except PySparkException:
            return False  # the engine takes one of them only
        # Spark numbers each WITH anew, so that no two of them compare equal.
        try:
            return self._inlined(self._aside, one, other)
        except PySparkException:  # over variables, which no other session has
            try:
                return self._inlined(self.spark, one, other)
            except PySparkException:
                return False

    def alike(self, one: str, other: str) -> bool:
        from pyspark.errors import PySparkException

        for spark in (self._aside, self.spark):  # variables are known in the caller's session only
            try:
                conf = {_PLAN_FIELDS: "100000", _EXCLUDED: _BY_ROWS}
                with configured(spark, conf), as_written(spark, one, other):
                    plans = [_optimized(spark, sql) for sql in (one, other)]
                if all(plans):
                    first, second = map(inlined, plans)
                    return first == second if first and second else numbered(plans[0]) == numbered(plans[1])
            except PySparkException:
                continue
        return False

    def chance(self, sql: str) -> str | None:
        # Spark asks for determinism in a join's condition, and of a subquery there it asks all the way down.
        try:
            self.schema(
                f"SELECT 1 AS one FROM (SELECT 1 AS one) AS a JOIN (SELECT 1 AS one) AS b ON EXISTS (\n{sql}\n)"
            )
        except ViewError as error:
            if "NON_DETERMINISTIC" in error.message or "NONDETERMINISTIC" in error.message:
                return "an expression that Spark calls non-deterministic"
            return f"a query of which Spark can't say whether it is deterministic ({error.message})"
        return None

    def as_time(self, sql: str, text: str) -> bool:
        """By the analysed plan, where implicit casts are written out."""
        from pyspark.errors import PySparkException

        try:
            plan = self._analysed(sql)
        except PySparkException:
            return True  # as a typed literal it isn't even parsed
        cast = rf"cast\({re.escape(text)} as (date|time)|(date|timestamp\w*)\({re.escape(text)}[,)]"
        return re.search(cast, plan) is not None or not plan

    def variables(self, sql: str) -> tuple[str, ...]:
        found = re.findall(r"variablereference\(system\.session\.([^=]*)=", self._analysed(sql))
        return tuple(sorted(set(found)))

    def _analysed(self, sql: str) -> str:
        """The analysed plan of a statement as Spark writes it."""
        # In the caller's session: elsewhere its variables are unknown, and EXPLAIN raises nothing.
        with configured(self.spark, {_PLAN_FIELDS: "100000"}), as_written(self.spark, sql):
            plans = "\n".join(str(row[0]) for row in self.spark.sql(f"EXPLAIN EXTENDED {sql}").collect())
        return plans.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]

    def raises(self) -> bool:
        return str(self.spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"

    def _own(self) -> dict[str, str]:
        """The user's own functions: the last part of each name, in lower case, to the whole name."""
        names = [str(r[0]) for r in self.spark.sql("SHOW USER FUNCTIONS").collect()]
        return {n.rpartition(".")[2].lower(): n for n in names}

    def functions(self, names: Collection[str]) -> tuple[Function, ...]:
        own, found, todo = self._own(), dict[str, Function](), list(names)
        while todo:
            name = todo.pop()
            if name in own and name not in found:
                found[name] = self._function(name, own[name])
                todo += re.findall(r"\w+", found[name].body.lower())
        return tuple(found[n] for n in sorted(found))

    def _function(self, name: str, whole: str) -> Function:
        told = "\n".join(str(r[0]) for r in self.spark.sql(f"DESCRIBE FUNCTION EXTENDED {whole}").collect())
        head, _, body = told.partition("\nBody:")
        if not body:
            return Function(name, "", "", ())
        # A parameter a line; those after the first begin with spaces.
        inputs = re.search(r"(?ms)^Input:(.*?)^(?=\S)", head)
        lines = [] if inputs is None else [line.strip() for line in inputs.group(1).splitlines()]
        kept = [f"Input: {' '.join(lines)}", *re.findall(r"(?m)^Returns:.*$", head)]
        kept += re.findall(r"(?m)^.*spark\.sql\.(?:ansi\.enabled|session\.timeZone)=.*$", head)
        parameters = tuple(line.split()[0].strip("`") for line in lines if line not in ("", "()"))
        return Function(name, " ".join(" ".join(kept).split()), body.strip(), parameters)

    def aggregates(self, calls: Mapping[str, int]) -> frozenset[str]:
        own = self._own()
        return frozenset(name for name in own.keys() & calls.keys() if self._aggregates(name, calls[name]))

    def _aggregates(self, name: str, arguments: int) -> bool:
        """Beside a bare column Spark asks for a GROUP BY where a function aggregates."""
        try:
            self.schema(f"SELECT one, {ident(name)}({', '.join(['NULL'] * arguments)}) FROM (SELECT 1 AS one)")
        except ViewError as error:
            return "GROUP_BY" in error.message
        return False

    def scalar(self, expressions: Sequence[str], from_sql: str) -> str | None:
        # Sort keys must be deterministic scalars: Spark itself refuses aggregates, generators and rand() there.
        order = ", ".join(f"({e}) IS NULL" for e in expressions)
        try:
            self.schema(f"SELECT 1 AS one FROM {from_sql} ORDER BY {order}")
        except ViewError as error:
            if "UNSUPPORTED_SQL_UDF_USAGE" not in error.message:
                return error.message
            try:
                # SQL functions can't be sort keys; in a filter Spark refuses aggregates and generators as well.
                self.schema(
                    f"SELECT 1 AS one FROM {from_sql} WHERE {' OR '.join(f'({e}) IS NULL' for e in expressions)}"
                )
            except ViewError as other:
                return other.message
        return None

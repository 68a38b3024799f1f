"""A small pipeline from its first build to its backfills, with sources and root on an object store.

    python -m tests.remote.shop s3://BUCKET FOLDER PART ...     prints {"steps": {part: result}, "seconds": ...}

Each part is a function here. Spark is the one that the environment names; FOLDER, of this machine, gets the pipeline's
files.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ivm
from ivm.cli import main as cli
from ivm.errors import IvmError
from ivm.names import table_ref
from ivm.session import get_session
from ivm.storage.location import Location
from ivm.storage.lock import exclusive

VIEWS = {
    "totals": "SELECT cust, sum(amount) AS s, count(*) AS n FROM orders GROUP BY cust",
    "named": (
        "SELECT /*+ ARRANGE(orders, cust) */ o.id, c.name, o.amount FROM orders o JOIN customers c ON o.cust = c.cust"
    ),
    "rich": "SELECT cust, s FROM totals WHERE s > 50",
}
FILE = """
name: shop
root: {lake}/root
sources:
  orders: {{path: "{alias}/orders", primary_key: id}}
  customers: {{path: "{lake}/customers", primary_key: cust}}
"""
CHECKS = "totals:\n  state:\n    - expect_column_values_to_not_be_null: {column: cust}\n"


class Shop:
    """The parts, in the order in which they can be run; each returns what the test looks at."""

    def __init__(self, lake: str, folder: Path) -> None:
        self.lake, self.folder = lake, folder
        self.alias = lake.replace("s3:", "s3a:")
        self.spark = get_session(schemes=["s3"])
        (folder / "views").mkdir(parents=True)
        (folder / "pipeline.yml").write_text(FILE.format(lake=lake, alias=self.alias))
        (folder / "checks.yml").write_text(CHECKS)
        for name, sql in VIEWS.items():
            (folder / "views" / f"{name}.sql").write_text(sql)

    def command(self, verb: str, *arguments: str) -> tuple[int, Any]:
        """Exit code and JSON of an `ivm` command, run in this process, so that it finds its session."""
        out, code = io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            try:
                cli.main([verb, *arguments, "-p", str(self.folder), "--json"])
            except SystemExit as end:
                code = int(end.code or 0)
        return code, json.loads(out.getvalue() or "null")

    def strategies(self, verb: str = "refresh", *arguments: str) -> dict[str, str]:
        """By view, how a command refreshed it, or its error."""
        _, report = self.command(verb, *arguments)
        if "views" not in report:
            return {"": report["message"]}
        return {name: v["error"] or v["strategy"] for name, v in report["views"].items()}

    def sources(self) -> None:
        """Written by Spark."""
        made = {
            "orders": "SELECT id, CAST(id % 7 AS int) AS cust, CAST(id % 5 AS int) AS amount FROM range(200)",
            "customers": "SELECT CAST(id AS int) AS cust, concat('c', id) AS name FROM range(9)",
        }
        for name, rows in made.items():
            properties = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            self.spark.sql(f"CREATE TABLE {table_ref(f'{self.lake}/{name}')} USING delta {properties} AS {rows}")

    def change(self, first: int = 1000) -> None:
        orders = table_ref(f"{self.lake}/orders")
        self.spark.sql(f"DELETE FROM {orders} WHERE id % 10 = {first % 10}")
        self.spark.sql(f"INSERT INTO {orders} VALUES ({first + 1}, 3, 4), ({first + 2}, 8, 4)")
        self.spark.sql(f"UPDATE {orders} SET amount = amount + 1 WHERE id = {first + 1}")

    def build(self) -> dict[str, str]:
        self.sources()
        return self.strategies()

    def refresh(self) -> dict[str, str]:
        self.change()
        return self.strategies()

    def unchanged(self) -> dict[str, str]:
        return self.strategies()

    def compact(self) -> int:
        code, tables = self.command("compact", "--keep-epochs", "0")
        return code or -len(tables)

    def backfill(self) -> dict[str, str]:
        return self.strategies("backfill", "named")

    def slice(self) -> dict[str, str]:
        return self.strategies("backfill", "totals", "--where", "cust = 3")

    def verify(self) -> dict[str, bool]:
        _, results = self.command("verify")
        if isinstance(results, dict):
            return {results["message"]: False}
        return {r["view"]: r["equal"] for r in results}

    def rows(self) -> list[int]:
        """Of a published table, as Spark reads it by itself, and as the pipeline gives it."""
        rows = self.spark.sql(f"SELECT count(*) FROM {table_ref(f'{self.lake}/root/named')}").first()
        return [rows[0], ivm.Pipeline.load(self.folder).read("named").count()]

    def status(self) -> list[Any]:
        code, found = self.command("status")
        return [code, found["root"], found["warnings"]]

    def locked(self) -> list[Any]:
        """A refresh while another one holds the root."""
        layout = ivm.Pipeline.load(self.folder).context.layout
        with exclusive(layout.lock, "pipeline 'shop'"):
            code, said = self.command("refresh")
        return [code, said["message"]]

    def tasks(self) -> dict[str, Any]:
        """A refresh as the tasks of Airflow's DAG, one after the other, each with nothing but the folder."""
        from ivm.orchestration.tasks import TASKS

        self.change(2001)
        with contextlib.redirect_stdout(io.StringIO()):
            found = {step: TASKS[step](str(self.folder)) for step in ("plan", "apply", "check", "publish")}
        return {
            "applied": {n: v["strategy"] for n, v in found["apply"]["views"].items()},
            "held": found["check"]["held"],
        }

    def refused(self) -> list[Any]:
        """A root for which Spark, and no other client here, has the wrong key; and that nothing was written there."""
        bucket = os.environ["SHOP_OTHER_BUCKET"]
        name = bucket.removeprefix("s3://")
        for key in ("access", "secret"):
            self.spark.conf.set(f"fs.s3a.bucket.{name}.{key}.key", "wrong")
        return [said(lambda: self.declared(f"{bucket}/root")), [str(f) for f in Location.of(bucket).files()]]

    def blind(self) -> list[str]:
        """A root that executors don't see, and what lies there afterwards."""
        root = self.folder / "root"
        return [said(lambda: self.declared(str(root))), *(str(f.relative_to(root)) for f in root.rglob("*"))]

    def declared(self, root: str) -> str:
        pipe = ivm.Pipeline("other", self.spark, root)
        pipe.source("orders", f"{self.lake}/orders")
        pipe.view("totals", VIEWS["totals"])
        return "declared"


def said(action: Callable[[], str]) -> str:
    try:
        return action()
    except IvmError as error:
        return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[name] = round(time.perf_counter() - started, 1)
    print(f"{name}: {seconds[name]} s", file=sys.stderr, flush=True)


def main() -> None:
    lake, folder, *parts = sys.argv[1:]
    seconds: dict[str, float] = {}
    steps: dict[str, Any] = {}
    with timed(seconds, "session"):
        shop = Shop(lake, Path(folder))
    try:
        for part in parts:
            with timed(seconds, part):
                steps[part] = getattr(shop, part)()
    finally:
        shop.spark.stop()
    print(json.dumps({"steps": steps, "seconds": seconds}))


if __name__ == "__main__":
    main()

"""TPC-H data as Delta sources with change feeds, and change batches in the style of its refresh functions.

A batch inserts new orders with their lineitems (RF1), deletes old orders with theirs (RF2), and updates existing
rows of all changing tables, join keys and group keys among them. Which rows is decided by a hash of their key and
the batch's number, so a batch is the same wherever it is made.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.errors import ConfigError
from ivm.names import parquet_ref, table_ref
from ivm.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")


def generate(folder: Path, scale: float) -> None:
    """Write the eight tables as Parquet with tpchgen-cli; a folder that is complete is kept."""
    stamp = folder / f"scale_{scale}"
    if stamp.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tool = Path(sys.executable).with_name("tpchgen-cli")
    command = [str(tool) if tool.exists() else "tpchgen-cli", "parquet", "-s", str(scale), "--output-dir", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise ConfigError("tpchgen-cli, which makes TPC-H data, is not installed.", "Install ivm[demo].") from error
    stamp.touch()


def load(spark: SparkSession, data: Path | Location, sources: Path | Location) -> None:
    """Create the sources as Delta tables with change feeds and deletion vectors; existing ones are replaced."""
    Location.of(str(sources)).drop()
    for table in TABLES:
        spark.sql(
            f"CREATE TABLE {table_ref(f'{sources}/{table}')} USING delta "
            "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true') "
            f"AS SELECT * FROM {parquet_ref(f'{data}/{table}.parquet')}"
        )


def change_statements(
    sources: Path | Location, batch: int, fraction: float, refresh_functions_only: bool = False
) -> list[str]:
    """The DML of one batch: about `fraction` of the rows of each changing table.

    The refresh functions change orders and lineitems only, two thirds of the rows that all statements change there.
    """
    t = {name: table_ref(f"{sources}/{name}") for name in TABLES}
    one_in = max(1, round(1 / fraction))

    def chosen(key: str, salt: int, share: int = 1) -> str:
        return f"pmod(hash({key}, {batch}, {salt}), {one_in * share}) = 0"

    shift = f"{batch} * 100000000L"
    orders_columns = (
        "o_orderkey + {0}, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_orderpriority, o_clerk, "
        "o_shippriority, o_comment"
    )
    lines_columns = (
        "l_orderkey + {0}, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax, "
        "l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate, l_shipinstruct, l_shipmode, l_comment"
    )
    young = "{0} < 100000000"
    refresh_functions = [
        # RF1: new orders with their lineitems
        (
            f"INSERT INTO {t['orders']} SELECT {orders_columns.format(shift)} FROM {t['orders']} "
            f"WHERE {young.format('o_orderkey')} AND {chosen('o_orderkey', 1, 3)}"
        ),
        (
            f"INSERT INTO {t['lineitem']} SELECT {lines_columns.format(shift)} FROM {t['lineitem']} "
            f"WHERE {young.format('l_orderkey')} AND {chosen('l_orderkey', 1, 3)}"
        ),
        # RF2: deleted orders with theirs
        f"DELETE FROM {t['orders']} WHERE {chosen('o_orderkey', 2, 3)}",
        f"DELETE FROM {t['lineitem']} WHERE {chosen('l_orderkey', 2, 3)}",
    ]
    # updates: values, group keys, join keys
    updates = [
        (
            f"UPDATE {t['lineitem']} SET l_quantity = pmod(l_quantity, 50) + 1, "
            "l_discount = pmod(l_discount * 100 + 1, 11) / 100, "
            "l_returnflag = CASE l_returnflag WHEN 'R' THEN 'A' ELSE 'R' END "
            f"WHERE {chosen('l_orderkey, l_linenumber', 3, 3)}"
        ),
        (
            f"UPDATE {t['orders']} SET o_custkey = CASE WHEN o_custkey > 1 THEN o_custkey - 1 ELSE o_custkey + 1 END, "
            f"o_orderpriority = '1-URGENT' WHERE {chosen('o_orderkey', 4, 3)}"
        ),
        (
            f"UPDATE {t['customer']} SET c_mktsegment = 'BUILDING', c_nationkey = pmod(c_nationkey + 1, 25), "
            f"c_acctbal = c_acctbal + 1 WHERE {chosen('c_custkey', 5)}"
        ),
        f"UPDATE {t['supplier']} SET s_nationkey = pmod(s_nationkey + 1, 25) WHERE {chosen('s_suppkey', 6)}",
        (
            f"UPDATE {t['part']} SET p_type = 'PROMO BRUSHED TIN', p_name = concat('green ', p_name) "
            f"WHERE {chosen('p_partkey', 7)}"
        ),
        f"UPDATE {t['partsupp']} SET ps_supplycost = ps_supplycost + 1 WHERE {chosen('ps_partkey, ps_suppkey', 8)}",
    ]
    return refresh_functions if refresh_functions_only else [*refresh_functions, *updates]


def change(
    spark: SparkSession,
    sources: Path | Location,
    batch: int,
    fraction: float,
    refresh_functions_only: bool = False,
) -> None:
    """Apply one batch to the sources."""
    for statement in change_statements(sources, batch, fraction, refresh_functions_only):
        spark.sql(statement).collect()

"""The files that `ivm init` writes."""

from __future__ import annotations

from pathlib import Path

from ivm import parameters
from ivm.files import write_new
from ivm.names import check_name

_PIPELINE = """\
name: {name}
root: ./lake            # state, traces and outputs live in this folder
schedule: null          # for Airflow: a cron expression, {{on: commits}}, or null: when told to

sources:                # Delta tables with a change feed, by path or by catalog identifier (table: db.orders)
  orders:
    path: ./sources/orders
    primary_key: id
"""
_VIEW = """\
-- mode: auto
SELECT customer, count(*) AS orders, sum(amount) AS total
FROM orders
GROUP BY customer
"""
_CHECKS = """\
# Great Expectations by view: `delta` judges the rows an epoch inserts, `state` the whole view as it would be.
customer_totals:
  state:
    - expect_column_values_to_be_unique: {column: customer}
"""


def write_template(folder: Path) -> list[str]:
    """Write an example pipeline. Raises ConfigError where one of its files is there already, or none can be written."""
    folder = Path(parameters.local_folder(folder, "the new folder"))
    name = folder.absolute().name.replace("-", "_").replace(" ", "_")
    check_name(name, "pipeline")
    files = {"pipeline.yml": _PIPELINE.format(name=name), "views/customer_totals.sql": _VIEW, "checks.yml": _CHECKS}
    return write_new(folder, files, "Choose another folder.")

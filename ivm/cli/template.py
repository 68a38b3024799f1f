"""The files that `ivm init` writes."""

from __future__ import annotations

from pathlib import Path

from ivm.errors import ConfigError
from ivm.names import check_name

_PIPELINE = """\
name: {name}
root: ./lake            # state, traces and outputs live here: a folder or a URL
schedule: null          # a cron expression for Airflow, or null: when told to

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
    """Write an example pipeline. Raises ConfigError where the folder already holds one."""
    if (folder / "pipeline.yml").exists():
        raise ConfigError(f"{folder} already holds a pipeline.", "Choose another folder.")
    name = folder.absolute().name.replace("-", "_").replace(" ", "_")
    check_name(name, "pipeline")
    (folder / "views").mkdir(parents=True, exist_ok=True)
    files = {"pipeline.yml": _PIPELINE.format(name=name), "views/customer_totals.sql": _VIEW, "checks.yml": _CHECKS}
    for file, text in files.items():
        (folder / file).write_text(text)
    return [str(folder / f) for f in files]

"""dbt's commands in one process with one Spark, run by the Python that has dbt: a line of JSON in, a line of JSON out.

{"arguments": [...], "marts": "ivm"} -> {"ok": true, "said": [...], "rows": [[...]]}

A process a command would start a JVM and a metastore each time.
"""

import json
import os
import sys


def main() -> None:
    """Answer until the input ends."""
    from dbt.cli.main import dbtRunner

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what dbt and Spark print is no answer
    for line in sys.stdin:
        asked = json.loads(line)
        os.environ["SHOP_MARTS"] = asked["marts"]
        said: list[str] = []
        ran = dbtRunner(callbacks=[lambda event, said=said: said.append(event.info.msg)]).invoke(
            ["--no-use-colors", *asked["arguments"]]
        )
        tables = [r.agate_table for r in ran.result.results] if asked["arguments"][0] == "show" and ran.success else []
        rows = [[str(v) for v in row] for table in tables for row in table.rows]
        answers.write(json.dumps({"ok": ran.success, "said": said, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()

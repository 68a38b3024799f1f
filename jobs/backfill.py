"""spark-submit jobs/backfill.py PIPELINE_FOLDER VIEW [--where CONDITION]: rebuild a view, or a slice of it."""

import sys

from ivm.cli.main import main

if __name__ == "__main__":
    sys.argv = ["ivm", "backfill", "-p", *sys.argv[1:], "--json"]
    main()

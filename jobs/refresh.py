"""spark-submit jobs/refresh.py PIPELINE_FOLDER [VIEW ...]: refresh a pipeline on the cluster that runs this job."""

import sys

from ivm.cli.main import main

if __name__ == "__main__":
    sys.argv = ["ivm", "refresh", "-p", *sys.argv[1:], "--json"]
    main()

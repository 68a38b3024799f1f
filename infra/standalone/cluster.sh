#!/usr/bin/env bash
# A Spark standalone cluster from the pyspark that is installed: no other download.
#
#   infra/standalone/cluster.sh master HOST                  on one machine; prints the URL that workers and drivers use
#   infra/standalone/cluster.sh worker spark://HOST:7077     on each of the others: all its cores, its memory less 1 GB
#   infra/standalone/cluster.sh refresh spark://HOST:7077 PIPELINE_FOLDER     submits jobs/refresh.py
#
# Each runs in the foreground: let systemd, a container or a scheduler keep it. Root and sources must lie where all machines
# see them (docs/clusters.md). Credentials of S3 are taken from the environment of who submits.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-.venv/bin/python}
SPARK_HOME=$("$PYTHON" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
export SPARK_HOME SPARK_CONF_DIR="${SPARK_CONF_DIR:-$PWD/infra/standalone}" PYSPARK_PYTHON="${PYSPARK_PYTHON:-$PYTHON}"

case "${1:-}" in
  master) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master --host "$2" --port 7077 --webui-port 8080 ;;
  worker) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker --webui-port 8081 "$2" ;;
  refresh)
    # The jars that ivm would fetch for a local Spark; executors get them from the driver.
    jars=$("$PYTHON" -c 'from ivm.jars import delta_jars, s3_jars; print(",".join(delta_jars() + s3_jars()))')
    exec "$SPARK_HOME/bin/spark-submit" --master "$2" --jars "$jars" jobs/refresh.py "${@:3}"
    ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

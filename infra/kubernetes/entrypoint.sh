#!/usr/bin/env bash
# What Spark on Kubernetes asks of an image: `driver ...` and `executor ...`; anything else is run as it is.
# After the entrypoint of Spark's own images. NOT RUN.
set -euo pipefail
case "${1:-}" in
  driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=${SPARK_DRIVER_BIND_ADDRESS}" --deploy-mode client "$@"
    ;;
  executor)
    mapfile -t options < <(env | sort -t_ -k4 -n | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p')
    exec java "${options[@]}" -Xms"${SPARK_EXECUTOR_MEMORY}" -Xmx"${SPARK_EXECUTOR_MEMORY}" -cp "$SPARK_HOME/jars/*" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url "${SPARK_DRIVER_URL}" \
      --executor-id "${SPARK_EXECUTOR_ID}" --cores "${SPARK_EXECUTOR_CORES}" --app-id "${SPARK_APPLICATION_ID}" \
      --hostname "${SPARK_EXECUTOR_POD_IP}" --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID}" --podName "${SPARK_EXECUTOR_POD_NAME}"
    ;;
  *) exec "$@" ;;
esac

"""The main job on TPC-H: data, change batches, and the demo that runs them through Airflow."""

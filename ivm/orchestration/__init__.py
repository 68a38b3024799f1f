"""Airflow: pipeline folders as DAGs. The only package that imports airflow."""

"""Pipelines on object stores and clusters, run in processes of their own.

Their JVMs need other jars and settings than the suite's.
"""

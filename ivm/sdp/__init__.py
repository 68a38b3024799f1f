"""Projects of Spark Declarative Pipelines, read as what `ivm adopt` makes a pipeline folder of.

spec         spark-pipeline.yml, and the files that it names
statements   the definitions of an SQL file
functions    the definitions of a Python file, by pyspark's own registry (needs pyspark)
project      definitions to views, settings, checks and what is left out
"""

"""Speed, as measured: one file a benchmark, its results as JSON in results/, tables in docs/benchmarks.md."""

"""Every threshold of a refresh: what is small, what is too much, how much runs at once.

There is one profile for each place to run.
What bounds a text that people write (a condition, a file) stands where that is read; what weighs one cost against
another stands in `ivm.planner.choose`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Limits:
    """Numbers of rows, but where another unit is named."""

    # -- how a relation is read
    #: Up to this many rows a relation is read whole: cheaper than collecting keys.
    whole_rows: int = 2_000
    #: Up to this many rows a relation that must be read whole is loaded by the native lane; above, Spark scans it,
    #: which counts as cost. Measured on TPC-H at SF10, where up to 300,000 such rows are read: a tenth of a refresh.
    native_whole_rows: int = 1_000_000
    #: Of a relation of up to so many rows all units read the same slice; of a larger one each what it asks for itself.
    shared_rows: int = 1_000_000
    #: Of more rows of accumulators those of the affected groups are looked for by their keys.
    searched_rows: int = 20_000
    #: Where keys can't be looked for, up to this many are handed over as Parquet; above, Spark scans them.
    accumulator_rows: int = 200_000
    #: Up to this many wanted values are written as literals, by which files and row groups are skipped;
    #: longer lists crash DataFusion.
    literal_keys: int = 100
    #: An ORDER BY ... LIMIT of more rows is evaluated from its whole input.
    stored_first_rows: int = 10_000
    #: One over so few rows, too: its stored ones may turn out not to be enough, and all are soon put in order. Measured
    #: on TPC-H's q03 at SF1 (11,600 rows) by Spark, one row changed: 1.0 s instead of 1.2; from the shell 7.0 of 10.3.
    few_first_rows: int = 20_000

    # -- what this process holds
    #: A delta of more rows stays with Spark, staged.
    delta_rows: int = 5_000_000
    #: A slice of more rows does so, too, with all that is read beside it.
    slice_rows: int = 5_000_000
    #: Rows that a wave's keyed reads found are kept for the next waves of the epoch, up to so many.
    found_rows: int = 4_000_000
    #: Accumulators of up to so many rows are summed in this process where they are compacted, of more by Spark: 1.5 M
    #: take a second, where a session that had to start for it took twenty.
    summed_rows: int = 4_000_000
    #: The result of a statement with more rows is staged, and what is stored of it goes into tables by its files.
    result_rows: int = 1_000_000
    #: Up to this many rows a full result is compared with what is published, and committed row by row; above, by files.
    compare_rows: int = 1_000_000
    #: Rows that are to be judged are judged by Spark beyond this many; fewer in this process.
    judged_rows: int = 500_000
    #: Differing rows that `verify` counts and samples; more are not collected.
    sampled_rows: int = 10_000

    # -- how statements run
    #: A statement that reads more rows is not run by the embedded engine, which holds all of them.
    embedded_rows: int = 5_000_000
    #: Statements over fewer rows are small: compiling code takes half a second,
    #: and saves half of one for 300,000 rows (measured on TPC-H q01).
    small_statement_rows: int = 200_000
    #: Spark is told that a slice of up to so many rows is one partition: what joins it is grouped without a shuffle.
    #: TPC-H at SF1 with 1 % changed, two cores: 32 s instead of 35 with slices of 65,536 only (single rounds).
    partition_rows: int = 1_000_000
    #: Up to this many input rows a full refresh is run as a small statement, beside others.
    small_build_rows: int = 50_000
    #: A process that ends with its refresh starts a JVM without second compiler where no source has more rows. Measured
    #: at TPC-H's SF1 (6 M rows): two thirds of the time. Nothing larger was.
    brief_rows: int = 10_000_000
    #: Nor where more rows of all sources changed. Measured with 19,000 and with 1 % of SF1 (33 s
    #: instead of 42 to 55); with 2.3 M a refresh was still at work after ten minutes (stopped, and not compared).
    brief_changed: int = 200_000
    #: Statements of independent units overlap: planning one uses the time another waits. In threads.
    threads: int = 3

    # -- what is chosen
    #: A batch of more than this share of its table's rows is published by writing the table anew; others are merged.
    anew_share: float = 0.3
    #: A full refresh costs as much as reading so many rows more than it reads: about a second on TPC-H at SF1.
    small_input: int = 1_000_000
    #: What refreshes took before is believed where it tells of a difference of more seconds than this.
    learned_seconds: float = 1.0
    #: A product without an equality of more rows than this is built with a warning.
    wide_product: int = 100_000_000

    # -- what is kept
    #: Epochs that stay apart in the traces when a refresh compacts by itself.
    kept_apart: int = 10
    #: Of relations of more rows it is weighed whether arrangements pay that nobody asked for.
    arranged_rows: int = 1_000_000
    #: Such arrangements hold at most this share of the sources' bytes.
    arranged_share: float = 0.4
    #: An arrangement whose later batches hold more than this share of its rows is made anew by compaction.
    history_share: float = 0.1


#: Spark in this process, or a small server beside it. Measured on two cores.
EMBEDDED = Limits()
#: Spark on other machines: statements wait for executors, not for the cores here, so more of them overlap.
#: Nothing else was measured there yet.
CLUSTER = replace(EMBEDDED, threads=8, native_whole_rows=20_000, partition_rows=200_000)

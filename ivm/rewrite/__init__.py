"""From a unit and the set of changed relations to the statements of one refresh (pure).

The way of a unit: delta_join (terms) -> slices (what each term reads) -> accumulators or affected_groups.
"""

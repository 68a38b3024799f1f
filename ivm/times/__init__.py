"""Times: total and product orders, frontiers, and reductions over partially ordered times (pure)."""

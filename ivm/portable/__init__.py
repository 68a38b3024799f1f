"""Which statements another engine may run in Spark's place, and how they are written for it (pure)."""

"""Which strategy a view takes in an epoch: decisions as data (pure)."""

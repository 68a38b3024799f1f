"""A Delta table's verbs (`protocol`), and the two lanes that have them all: `rust` (delta-rs) and `spark`."""

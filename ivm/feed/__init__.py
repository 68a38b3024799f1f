"""Sources as Z-set deltas: which versions, whether the feed covers them, and the rows."""

"""The operators that cut a query: each makes a unit and gives back the block that reads it (pure)."""

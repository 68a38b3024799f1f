"""Great Expectations on each epoch before it is published."""

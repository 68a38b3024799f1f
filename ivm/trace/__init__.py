"""Stored histories: where they lie, how batches are appended and read."""

"""Helpers to test views: an oracle that drives any view through random change batches."""

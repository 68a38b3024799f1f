"""Rows wherever they lie, and what statements make of them."""

"""The `ivm` command."""

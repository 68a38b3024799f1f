"""Two lanes to Delta: `native` (delta-rs, Arrow in and out) and `spark`. See design notes."""

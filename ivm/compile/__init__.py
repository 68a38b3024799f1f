"""A view's SQL to its program: every pass of the compiler, in order (pure)."""

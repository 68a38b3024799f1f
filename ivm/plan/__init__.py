"""The relational plan: frozen nodes in one normal form (pure, no Spark)."""

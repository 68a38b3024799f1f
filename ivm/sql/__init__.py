"""SQL in and out: `parse` turns a view into a program, `render` turns plans into Spark SQL (pure)."""

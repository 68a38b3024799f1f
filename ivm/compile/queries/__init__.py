"""Queries to blocks: select lists, FROM items, joins, LATERAL and subqueries in the normal form's terms (pure)."""

"""SQL views over Delta tables, kept exactly up to date by applying only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ivm.allocators import keep_pages

__version__ = "0.1.0"

keep_pages()

if TYPE_CHECKING:
    from ivm.pipeline import Pipeline

__all__ = ["Pipeline", "__version__"]


def __getattr__(name: str) -> Any:
    # Importing ivm must stay cheap for Airflow's DAG parser, which needs none of what Pipeline imports.
    if name == "Pipeline":
        from ivm.pipeline import Pipeline

        return Pipeline
    raise AttributeError(f"module 'ivm' has no attribute {name!r}")

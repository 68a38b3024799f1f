"""The array library that in-process Z-sets compute with: one line to change, `use("cupy")` for a GPU.

Invariant: Z-set code calls only functions that NumPy and CuPy both have, through `xp()`.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from ivm.errors import ConfigError

_active: list[ModuleType] = []


def xp() -> Any:
    """The array module in use; NumPy unless `use` chose another."""
    if not _active:
        use("numpy")
    return _active[0]


def use(name: str) -> None:
    """Compute with `numpy` or `cupy` from now on; Z-sets made before stay with theirs. Raises ConfigError.

    >>> use("numpy")
    """
    if name not in ("numpy", "cupy"):
        raise ConfigError(f"There is no array backend {name!r}.", "Choose numpy or cupy.")
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"The array backend {name} is not installed ({error}).", f"Install {name}, or use numpy."
        ) from error
    _active[:] = [module]


def to_host(array: Any) -> Any:
    """A NumPy array of the same values, wherever they are."""
    return array.get() if hasattr(array, "get") else array

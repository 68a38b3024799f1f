"""A step that stops for a reason outside of any view says so in one sentence.

Such reasons are a full disk, or a store that doesn't answer.
Invariant: what leaves a guarded step is an IvmError, a defect of ours, or the end of the process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ivm.errors import IvmError, StoppedError
from ivm.session import error_text

#: What only a mistake of ours raises: it passes as it is, and the command says that it is a defect.
DEFECTS = (AssertionError, AttributeError, NameError, TypeError)

P = ParamSpec("P")
R = TypeVar("R")


def step(function: Callable[P, R]) -> Callable[P, R]:
    """Guard a step of the protocol; its name without `step_` is what the message calls it."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (IvmError, *DEFECTS):
            raise
        except Exception as error:
            name = function.__name__.removeprefix("step_")
            text = error_text(error) or type(error).__name__
            raise StoppedError(
                f"The step {name!r} stopped: {text}.", "Nothing is lost; run it again when the cause is mended."
            ) from error

    return run

"""Every error a user can meet: what was expected, what was found, and what to do.

The CLI prints ``str(error)`` and nothing else, so a message must stand on its own.
"""

from __future__ import annotations


class IvmError(Exception):
    """Base of all errors raised on purpose; `hint` says what would mend it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class ConfigError(IvmError):
    """A pipeline folder, a yml key, a name or a parameter is not what it must be."""


class StorageError(IvmError):
    """An object store doesn't answer, lacks the bucket, or refuses the credentials."""


class UnseenError(StorageError):
    """Spark doesn't see the pipeline's root, which this process sees: nothing can be refreshed there."""


class SourceError(IvmError):
    """A source can't be read as a Delta table with a change feed."""


class ViewError(IvmError):
    """A view's SQL can't be built: unknown names, cycles, refused output columns."""


class RefusedError(ViewError):
    """`mode="incremental"` was asked of a view that can only be refreshed in full."""


class GateError(IvmError):
    """Views were not published with the others: they failed, or an expectation failed and holds them back."""


class ConcurrentRefreshError(IvmError):
    """Another refresh of the same pipeline is under way, and it wins."""


class StateError(IvmError):
    """The state under the pipeline's root is not this pipeline's, or can't be read."""


class StoppedError(StateError):
    """A step stopped for a reason outside of any view and of the state: a full disk, a server that went away."""


class OpenEpochError(StateError):
    """What needs the state between two epochs met one that is under way, or that was left."""


class LargeReadError(Exception):
    """A read gave more rows than this process may hold; nobody meets it: Spark reads them."""


class LargeSliceError(LargeReadError):
    """What units ask for of a relation is more than this process may hold: they are decided again."""

    def __init__(self, relation: str, told: str) -> None:
        super().__init__(told)
        self.relation = relation


#: What may be otherwise a moment later, so that the same step is worth another try.
TRANSIENT = (ConcurrentRefreshError, StorageError, StoppedError, OpenEpochError)


def may_pass(error: IvmError) -> bool:
    """Whether trying again may help.

    >>> may_pass(ConcurrentRefreshError("busy")), may_pass(UnseenError("unseen")), may_pass(GateError("held"))
    (True, False, False)
    """
    return isinstance(error, TRANSIENT) and not isinstance(error, UnseenError)

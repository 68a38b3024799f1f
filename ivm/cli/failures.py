"""How a command ends: the exit codes, and the sentence for each class of exception.

Invariant: every exception has a sentence; one that nobody foresaw is told as a defect of ivm, with a code of its own.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import IntEnum

import typer
import yaml

from ivm.errors import ConcurrentRefreshError, IvmError
from ivm.files import os_reason


class ExitCode(IntEnum):
    """The exit codes of every verb; docs/cli.md says when each is given."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DEFECT = 70
    BUSY = 75
    INTERRUPTED = 130
    NO_READER = 141


@dataclass(frozen=True)
class Failure:
    """What is told of an exception: its kind (for machines), a sentence with what to do, and the exit code."""

    kind: str
    message: str
    code: ExitCode = ExitCode.FAILED


#: What click calls a mistake in the arguments; typer brings a click of its own.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_EXTRAS = {
    "pyspark": "spark",
    "delta": "spark",
    "airflow": "airflow",
    "great_expectations": "quality",
    "tpchgen_cli": "demo",
}
_LIBRARIES = {
    "pyspark": "Spark",
    "py4j": "Spark",
    "grpc": "Spark",
    "deltalake": "delta-rs",
    "_internal": "delta-rs",
    "pyarrow": "Arrow",
    "great_expectations": "Great Expectations",
}
_OS_HINTS = {
    errno.EACCES: "Check the permissions.",
    errno.EPERM: "Check the permissions.",
    errno.EROFS: "Choose a folder that can be written to.",
    errno.ENOSPC: "Make room on the disk; then run it again.",
    errno.EDQUOT: "Make room in the quota; then run it again.",
    errno.ENAMETOOLONG: "Choose a shorter path.",
    errno.ENOTDIR: "A part of the path is a file; name a folder.",
    errno.EISDIR: "Name a file.",
    errno.ELOOP: "A link leads to itself; mend it.",
    errno.ENOENT: "Check the path.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n).",
}


def failure(error: BaseException) -> Failure:
    """The sentence for an exception.

    >>> failure(OSError(28, "No space left on device", "/lake/x")).message
    'no space left on device: /lake/x. Make room on the disk; then run it again.'
    >>> failure(KeyError("x")).code.name
    'DEFECT'
    """
    kind = type(error).__name__
    library = _LIBRARIES.get(type(error).__module__.split(".")[0])
    match error:
        case IvmError():
            return Failure(
                kind, str(error), ExitCode.BUSY if isinstance(error, ConcurrentRefreshError) else ExitCode.FAILED
            )
        case KeyboardInterrupt() | typer.Abort():
            return Failure(
                "Interrupted",
                "interrupted. Run the command again: a refresh goes on where it was.",
                ExitCode.INTERRUPTED,
            )
        case ModuleNotFoundError() if str(error.name).split(".")[0] in _EXTRAS:
            extra = _EXTRAS[str(error.name).split(".")[0]]
            return Failure(
                "MissingPackage", f"{error.name} is not installed. Install it with: pip install 'ivm[{extra}]'"
            )
        case MemoryError():
            return Failure(kind, "the memory is used up. Give the process more, or refresh fewer views at once.")
        case RecursionError():
            return Failure(kind, "an input nests too deeply. Write it with less nesting.")
        case UnicodeError():
            return Failure(kind, f"a text can't be read or written as it is: {_first_line(error)}. Use UTF-8.")
        case yaml.YAMLError():
            return Failure(kind, f"a file is not valid YAML: {_first_line(error)}. Correct it.")
        case _ if library == "Spark":
            from ivm.session import error_text

            return Failure(kind, f"Spark says: {error_text(error)}")  # type: ignore[arg-type]
        case _ if library is not None:
            return Failure(kind, f"{library} says: {_first_line(error)}.")
        case OSError():
            where = f": {error.filename}" if error.filename else ""
            return Failure(
                kind, f"{os_reason(error)}{where}. {_OS_HINTS.get(error.errno or 0, 'Check the path and the disk.')}"
            )
        case ValueError() if "null byte" in str(error) or "null character" in str(error):
            return Failure(kind, "a path or name holds a NUL character. Leave it out.")
    return Failure(
        "Defect",
        (
            f"this is a defect of ivm ({kind}: {_first_line(error)}). "
            "Please report it, with the output of the same command under IVM_DEBUG=1."
        ),
        ExitCode.DEFECT,
    )


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "no message").rstrip(".")[:500]

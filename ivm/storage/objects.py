"""Object stores: S3 and what speaks its protocol, Azure, Google Cloud.

They are reached through the library that delta-rs itself stands on.
Both take endpoint, region and credentials from the same variables of the environment (AWS_*, AZURE_*, GOOGLE_*), so
that who can open a table can also lock it. Keys are objects; a folder is what several keys begin with.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ivm.errors import StorageError
from ivm.storage.store import Stat

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

P = ParamSpec("P")
R = TypeVar("R")

#: Schemes that are served, as they are spelled here.
SCHEMES = ("s3", "abfss", "abfs", "gs")
#: Somebody waits: a store that can't be reached shall be told of in seconds. delta-rs tries for three minutes.
_RETRY = {
    "max_retries": 3,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    "retry_timeout": timedelta(seconds=15),
}
_CLIENT = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=60)}
#: delta-rs reads it from the environment; options of a client that are given here would hide it.
_ALLOW_HTTP = ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP", "ALLOW_HTTP")

#: The parts of a tag, in this order; none has a line break, being a header of HTTP.
_TAG = ("e_tag", "version")

_REFUSED = (
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "ExpiredToken",
    "Forbidden",
    "AuthenticationFailed",
    "AuthorizationFailure",
)
_VARIABLES = {
    "s3": (
        "AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY; "
        "AWS_ALLOW_HTTP=true for an http:// endpoint"
    ),
    "abfss": (
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, "
        "AZURE_TENANT_ID"
    ),
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}


@functools.lru_cache(maxsize=64)
def opened(root: str) -> Objects:
    """The store of a scheme and bucket. Nothing is asked of it yet."""
    from obstore.store import from_url

    try:
        if root.startswith("memory:"):
            return Objects(root, from_url("memory:///"))
        plain = any(os.environ.get(name, "").lower() in ("true", "1") for name in _ALLOW_HTTP)
        return Objects(root, from_url(root, retry_config=_RETRY, client_options={**_CLIENT, "allow_http": plain}))
    except Exception as error:
        raise trouble(root, error) from error


def trouble(url: str, error: Exception) -> StorageError:
    """What an error of a store means, in one sentence; no variable's value is in it.

    >>> print(trouble("s3://l/x", Exception("... 404 Not Found: <Error><Code>NoSuchBucket</Code>...")))
    There is no bucket 'l' for s3://l/x. Create it, or correct the URL; the endpoint is taken from the environment.
    """
    scheme, _, rest = url.partition("://")
    bucket, text = rest.partition("/")[0], str(error)
    code = next(iter(re.findall(r"<Code>(\w+)</Code>", text)), "")
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return StorageError(
            f"There is no bucket {bucket!r} for {url}.",
            "Create it, or correct the URL; the endpoint is taken from the environment.",
        )
    if code == "InvalidBucketName":
        return StorageError(f"{bucket!r} is no name of a bucket, in {url}.", "Correct the URL.")
    variables = _VARIABLES.get(scheme, _VARIABLES["abfss"])
    if (
        code in _REFUSED
        or type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError", "PermissionError")
        or "403 Forbidden" in text
    ):
        return StorageError(
            f"The store refuses the credentials for {url}{f' ({code})' if code else ''}.", f"Check {variables}."
        )
    return StorageError(f"{url} can't be reached: {_reason(text, code)}.", f"Check the network and {variables}.")


def _reason(text: str, code: str) -> str:
    """The innermost cause that an error names, without colours, lines and the library's debug text."""
    if code:
        return code
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).partition("Debug source:")[0]
    if "builder error" in plain:
        return "its endpoint is http://, which has to be allowed"
    if "operation timed out" in plain or "deadline has elapsed" in plain:
        return "it doesn't answer"
    parts = [p.strip() for p in re.split(r"\n|↳|: | - ", plain) if p.strip()]
    return (parts[-1] if parts else "no reason given").rstrip(".")[:200]


def _told(method: Callable[P, R]) -> Callable[P, R]:
    """Errors of the library, but for a missing object, become one sentence."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        from obstore.exceptions import BaseError

        try:
            return method(*args, **kwargs)
        except (BaseError, PermissionError, NotImplementedError) as error:
            raise trouble(f"{args[0].root}/{args[1]}".rstrip("/"), error) from error  # type: ignore[attr-defined]

    return guarded


class Objects:
    """Implements `ivm.storage.store.Store` over one bucket.

    Raises StorageError where the store doesn't answer, or refuses.
    """

    def __init__(self, root: str, store: Any) -> None:
        self.root, self._store = root, store

    @_told
    def stat(self, key: str) -> Stat | None:
        try:
            return _stat(self._store.head(key))
        except FileNotFoundError:
            return None

    @_told
    def exists(self, key: str) -> bool:
        return any(True for _ in self._under(key)) or self.stat(key) is not None

    @_told
    def read(self, key: str) -> bytes:
        return bytes(self._store.get(key).bytes())

    @_told
    def write(self, key: str, data: bytes) -> None:
        try:
            self._store.put(key, data)
        except FileNotFoundError as error:
            raise trouble(f"{self.root}/{key}", error) from error

    @_told
    def create(self, key: str, data: bytes) -> str | None:
        from obstore.exceptions import AlreadyExistsError

        try:
            return _tag(self._store.put(key, data, mode="create", use_multipart=False))
        except AlreadyExistsError:
            return None
        except FileNotFoundError as error:
            raise trouble(f"{self.root}/{key}", error) from error

    @_told
    def swap(self, key: str, data: bytes, tag: str) -> str | None:
        from obstore.exceptions import PreconditionError

        try:
            return _tag(self._store.put(key, data, mode=_version(tag), use_multipart=False))
        except (PreconditionError, FileNotFoundError):
            return None

    @_told
    def children(self, key: str) -> list[str]:
        found = self._store.list_with_delimiter(key or None)
        names = [m["path"] for m in found["objects"]] + list(found["common_prefixes"])
        return [n.rstrip("/").rpartition("/")[2] for n in names]

    @_told
    def files(self, key: str) -> Iterator[str]:
        return (one[len(key) + 1 :] if key else one for keys in self._under(key) for one in keys)

    @_told
    def drop(self, key: str) -> None:
        for keys in self._under(key):
            self._store.delete(keys)
        with suppress(FileNotFoundError):
            self._store.delete(key)

    @_told
    def copy(self, key: str, to: str) -> None:
        if self.stat(key) is not None:
            self._store.copy(key, to)
        for portion in self._store.list(key or None):
            for found in portion:
                try:
                    self._store.copy(found["path"], to + found["path"][len(key) :])
                except FileNotFoundError:
                    # S3A marks an empty folder by an object whose key ends with "/"; listings leave that away.
                    if found["size"]:
                        raise

    @_told
    def move(self, key: str, to: str) -> None:
        self.copy(key, to)
        self.drop(key)

    def make(self, key: str) -> None:
        """There are no folders to be made."""

    @_told
    def check(self, key: str) -> None:
        self._store.list_with_delimiter(key or None)

    def arrow(self) -> FileSystem:
        from ivm.storage.arrow import file_system

        return file_system(self.root, self._store)

    def _under(self, key: str) -> Iterator[Sequence[str]]:
        """The keys below one, in portions."""
        for portion in self._store.list(key or None):
            yield [m["path"] for m in portion]


def _stat(meta: Any) -> Stat:
    return Stat(int(meta["size"]), meta["last_modified"], _tag(meta))


def _tag(meta: Any) -> str:
    """What tells an object's content from others: Google swaps by its version (a generation), others by its ETag."""
    return "\n".join(meta[part] or "" for part in _TAG)


def _version(tag: str) -> dict[str, str]:
    """A tag as the library takes it.

    >>> _version('"9f"'), _version('"9f"\\n17')
    ({'e_tag': '"9f"'}, {'e_tag': '"9f"', 'version': '17'})
    """
    return {part: told for part, told in zip(_TAG, tag.split("\n"), strict=False) if told}

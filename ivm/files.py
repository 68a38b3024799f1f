"""Files that people write: read as text or YAML, or refused with the file's name and what is wrong with it.

Invariant: what `read_yaml` returns is plain data (mappings with distinct keys, lists, scalars) of bounded size and
depth, so that whoever walks or prints it can't be led into a loop, a deep recursion or an expansion of aliases.
"""

from __future__ import annotations

import os
import reprlib
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ivm.errors import ConfigError

#: Far more than a person writes, far less than what is slow to read.
MAX_BYTES = 1_000_000
MAX_DEPTH = 50
MAX_VALUES = 100_000
MAX_DIGITS = 100

_TAGS = {f"tag:yaml.org,2002:{t}" for t in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge")}
_MERGE = "tag:yaml.org,2002:merge"


def os_reason(error: OSError) -> str:
    """The system's own words for a failed call, in one phrase.

    >>> os_reason(PermissionError(13, "Permission denied", "/x"))
    'permission denied'
    """
    return (error.strerror or str(error) or type(error).__name__).lower()


@contextmanager
def writing(folder: object) -> Iterator[None]:
    """Raises ConfigError where what is written within fails for the folder's sake."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{error.filename or folder} can't be written: {os_reason(error)}.",
            "Choose a folder that can be written to.",
        ) from error


def read_text(file: Path, most: int = MAX_BYTES) -> str:
    """The text of a UTF-8 file of at most so many bytes (a byte order mark is left out).

    Raises ConfigError where it can't be read as that.
    """
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(f"{file} is a folder, where a file is expected.", "Rename or remove the folder.")
        if not stat.S_ISREG(mode):  # reading a pipe or a device may never end
            raise ConfigError(f"{file} is not an ordinary file.", "Put a text file there.")
        with file.open("rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise ConfigError(
            f"{file} can't be read: {os_reason(error)}.", "Check the path and its permissions."
        ) from error
    except ValueError as error:
        raise ConfigError(f"{str(file)!r} is not a path: {error}.", "Name a file.") from error
    if len(data) > most:
        raise ConfigError(
            f"{file} is larger than {most:,} bytes.", "Split it; nothing that a person writes by hand is so large."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}.", "Save it as UTF-8."
        ) from error
    if "\0" in text:
        raise ConfigError(f"{file} holds a NUL character, so it is no text file.", "Save it as UTF-8.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_yaml(file: Path) -> Any:
    """The one document of a YAML file as plain data, None where it is empty. Raises ConfigError for anything else."""
    text = read_text(file)
    try:
        # A subclass of SafeLoader: it makes plain data only.
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
        raise ConfigError(f"{file} is not valid YAML: {problem}{where}.", "Correct that place.") from error
    except RecursionError as error:
        raise ConfigError(
            f"{file} is not valid YAML: it nests too deeply.", f"At most {MAX_DEPTH} levels are read."
        ) from error


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses what others let pass: repeated keys, deep nesting, expanding aliases, tags."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise self._refused(f"it nests deeper than {MAX_DEPTH} levels", mark)
        alias = self.peek_event() if self.check_event(yaml.AliasEvent) else None  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self._depth -= 1
        if alias is not None and id(node) not in self._sizes:
            raise self._refused("an alias stands for what it is part of", alias.start_mark)
        if node is not None:
            self._judge(node)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refused("a key is itself a mapping or a list", key.start_mark)
            if key.tag == _MERGE:
                continue
            name = self.construct_object(key)
            if name in seen:
                raise self._refused(f"the key {name!r} is there twice", key.start_mark)
            seen.add(name)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep=deep)
            if isinstance(value, str):
                value.encode()  # "\ud800" is half a character: no path, no name and no statement can hold it
            elif isinstance(node, yaml.ScalarNode) and len(node.value) > MAX_DIGITS:
                raise ValueError("too long")
        except (ValueError, LookupError, AttributeError, OverflowError) as error:
            # PyYAML lets through what int(), float(), date() and its own tables raise
            # for text that only looks like one.
            kind, text = node.tag.rpartition(":")[2], reprlib.repr(node.value)
            raise self._refused(f"{text} is no {kind if kind != 'str' else 'text'}", node.start_mark) from error
        return value

    def _judge(self, node: yaml.Node) -> None:
        """An alias stands for all values that it expands to."""
        if node.tag not in _TAGS:
            raise self._refused(f"the tag {node.tag.replace('tag:yaml.org,2002:', '!!')} is not read", node.start_mark)
        if id(node) not in self._sizes:
            children = [] if isinstance(node, yaml.ScalarNode) else node.value
            parts = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
            self._sizes[id(node)] = 1 + sum(self._sizes[id(part)] for part in parts)
        if self._sizes[id(node)] > MAX_VALUES:
            raise self._refused(
                f"it holds more than {MAX_VALUES:,} values, counting what aliases stand for", node.start_mark
            )

    @staticmethod
    def _refused(problem: str, mark: Any) -> yaml.MarkedYAMLError:
        return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def write_new(folder: Path, files: Mapping[str, str], otherwise: str) -> list[str]:
    """Write a pipeline's files, by their paths in a folder; returns them. Nothing that is there is written over.

    Raises ConfigError where one is there already (`otherwise` says what to do then), or none can be written.
    """
    there = [f for f in files if os.path.lexists(folder / f)]
    if there:
        what = "a pipeline" if "pipeline.yml" in there else there[0]
        raise ConfigError(f"{folder} already holds {what}.", otherwise)
    with writing(folder):
        for file, text in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            with (folder / file).open("x", encoding="utf-8") as new:
                new.write(text)
    return [str(folder / f) for f in files]

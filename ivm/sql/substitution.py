"""Spark's variables: `${name}` in the text of a statement, which Spark replaces before it reads the text (pure).

    ${name}, ${spark:name}, ${sparkconf:name}, ${hiveconf:name}, ${hivevar:name}    a setting's value; "" for none
    ${env:name}, ${system:name}                                                     the environment's or the JVM's

So it does in strings, quoted names and comments, too (`spark.sql.variable.substitute`, on by default). What such a text
means is known to a session at one moment only.

Invariant: no text that a user wrote for Spark to read holds `${`. What ivm writes of it may (a string '$\\{x}' is
rendered '${x}'; a column may be called so), and runs without substitution (see `ivm.session.as_written`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ivm.errors import ViewError

OPENED = "${"
#: As Spark finds one (ConfigReader.REF_RE), by Java's word characters and spaces.
_REFERENCE = re.compile(r"\$\{(?:(\w+?):)?([^ \t\n\x0b\f\r]+?)\}", re.ASCII)
#: Before the name of a setting; none is the same.
_OF_SETTINGS = {None, "spark", "sparkconf", "hiveconf", "hivevar"}


def reference(text: str) -> str:
    """The first `${...}` of a text, as it is written there; "" where there is none.

    >>> reference("SELECT '$5', '${env:HOME}' AS h"), reference("SELECT '$5'"), reference("'${'")
    ('${env:HOME}', '', '${')
    """
    at = text.find(OPENED)
    found = _REFERENCE.match(text, at) if at >= 0 else None
    return found[0] if found else OPENED if at >= 0 else ""


def check_written_out(text: str, what: str) -> None:
    """Raises ViewError where a text holds `${`."""
    if found := reference(text):
        raise ViewError(
            f"{what} holds {found}: Spark replaces ${{...}} by a setting or a variable of the environment before it "
            "reads a statement, in strings, names and comments, too, so that its text doesn't say what it means.",
            "Write the value itself; where these characters are meant, concat('$', '{...}').",
        )


def written_out(text: str, settings: Mapping[str, str]) -> str:
    """A text with each `${name}` replaced by the setting of that name, as Spark replaces it.

    Raises ViewError for a name that isn't there, and for settings that name each other in a circle.

    >>> written_out("SELECT '${region}' AS r, ${spark:least} AS n", {"region": "EU", "least": "${one}", "one": "1"})
    "SELECT 'EU' AS r, 1 AS n"
    """
    return _written_out(text, settings, ())


def _written_out(text: str, settings: Mapping[str, str], within: tuple[str, ...]) -> str:
    def value(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind not in _OF_SETTINGS or name not in settings:
            raise ViewError(f"it holds {match[0]}, which is none of the settings given", "Write the value itself.")
        if name in within:
            raise ViewError(f"the setting {name} holds {match[0]}, and so itself", "Break the circle.")
        return _written_out(settings[name], settings, (*within, name))

    return _REFERENCE.sub(value, text)

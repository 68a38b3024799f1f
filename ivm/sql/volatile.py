"""What gives another answer each time it is asked, though Spark calls it deterministic (pure).

It holds for the length of one statement only.
What Spark itself calls non-deterministic is found by asking (`Analyzer.chance`); this is the rest: the time, the
session, the version, and functions that draw random numbers unseen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import sqlglot
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from ivm.plan.nodes import Relation
from ivm.sql.dialect import IvmSpark, function_name

_OF_THE_SESSION = (
    "current_date", "curdate", "current_timestamp", "now", "localtimestamp", "current_time", "current_timezone",
    "current_user", "user", "session_user", "current_database", "current_schema", "current_catalog", "current_path",
    "version",
)  # fmt: skip
#: Spark calls these non-deterministic itself; they are named here for the sake of a plain reason,
#: and for other engines.
_RANDOM = (
    "rand", "random", "randn", "uuid", "shuffle", "randstr", "uniform", "monotonically_increasing_id",
    "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length",
)  # fmt: skip
#: Functions that give another answer each time, whatever they are given.
VOLATILE = frozenset([*_OF_THE_SESSION, *_RANDOM])
#: These draw numbers that Spark doesn't know of: KLL sketches choose what they keep.
_SKETCHES = ("kll_sketch_agg_", "kll_merge_agg_", "kll_sketch_merge_")
#: Functions that give the time if called without arguments.
_OF_NOW = ("unix_timestamp", "to_unix_timestamp")
#: Without parentheses they are words of the grammar, or columns of that name.
_BARE = (
    "current_date", "current_timestamp", "current_time", "localtimestamp", "current_user", "user", "session_user",
    "current_catalog", "current_database", "current_schema", "current_path",
)  # fmt: skip
#: Words that Spark reads as a time where it casts a literal, perhaps followed by a time zone.
_WORD = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
#: What stands for them while the engine is asked how it reads them.
MARKED_WORD = "__ivm_word"


def volatile(tree: exp.Expression, relations: Mapping[str, Relation]) -> str | None:
    """The name of what changes by itself in a statement over these relations, None if nothing is known to.

    >>> volatile(sqlglot.parse_one("SELECT aes_encrypt(a, 'key') AS x FROM t", read=IvmSpark), {})
    'aes_encrypt() without an initialization vector'
    """
    if tree.find(exp.TableSample):
        return "TABLESAMPLE"
    for func in tree.find_all(exp.Func):
        name, arguments = function_name(func), list(func.iter_expressions())
        if name in VOLATILE or name.startswith(_SKETCHES) or (name in _OF_NOW and not arguments):
            return f"{name}()"
        if (
            name == "aes_encrypt"
            and len(arguments) < 5
            and not (len(arguments) > 2 and arguments[2].name.upper() == "ECB")
        ):
            return "aes_encrypt() without an initialization vector"
    columns = {c.name.lower() for r in relations.values() for c in r.columns}
    bare = (c.name.lower() for c in tree.find_all(exp.Column) if not c.table and not c.this.args.get("quoted"))
    return next((name for name in bare if name in _BARE and name not in columns), None)


def time_words(sql: str) -> list[str]:
    """The string literals of a statement that Spark could read as a time.

    >>> time_words("SELECT 'today' AS a, 'today is' AS b, 'a day' AS c, today FROM t -- 'now'")
    ['today', 'today is']
    """
    return [t.text for t in _words(sql)]


def with_marked_words(sql: str) -> str:
    """The statement with these literals as MARKED_WORD.

    >>> with_marked_words("SELECT 'today' AS a, 'b' AS b FROM t")
    "SELECT '__ivm_word' AS a, 'b' AS b FROM t"
    """
    for token in reversed(list(_words(sql))):
        sql = f"{sql[: token.start]}'{MARKED_WORD}'{sql[token.end + 1 :]}"
    return sql


def _words(sql: str) -> Iterator[Token]:
    return (
        t for t in sqlglot.tokenize(sql, read=IvmSpark) if t.token_type is TokenType.STRING and _WORD.fullmatch(t.text)
    )

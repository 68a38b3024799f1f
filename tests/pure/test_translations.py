"""What was written for one epoch's statement serves the next one's, and is what would be written for it."""

from __future__ import annotations

import pytest

from ivm.plan.nodes import Column
from ivm.portable import translations
from ivm.portable.statement import NotPortableError, Relation, written
from ivm.portable.translations import Translations

A = (Column("k", "bigint"), Column("s", "string"))


def statement(tag: str, *versions: int) -> str:
    """Names and versions outside of literals, and what looks like them inside."""
    first, second = versions
    return (
        f"SELECT a.`k`, '`__ivm_{tag}_a_both` VERSION AS OF {first}' AS `x`, b.`s` FROM `__ivm_{tag}_a_both` AS a "
        f"JOIN delta.`/lake/it's` VERSION AS OF {first} AS b ON a.`k` = b.`k` "
        f"JOIN delta.`/lake/it's` VERSION AS OF {second} AS c ON a.`k` = c.`k` WHERE a.`s` = 'it\\'s `' AND b.`k` > 0"
    )


class Lake:
    """Answers as datasets do."""

    def __init__(self, columns: tuple[Column, ...] = A) -> None:
        self.columns = columns
        self.asked: list[tuple[str, bool, int | None]] = []

    def lookup(self, name: str, path: bool, version: int | None) -> Relation | None:
        self.asked.append((name, path, version))
        return None if "gone" in name else Relation(f"{name} {version}" if path else name, self.columns)

    def direct(self, sql: str):
        """What is written for a statement by itself."""

        def known(node):
            version = node.args.get("version")
            return self.lookup(node.name, node.db == "delta", int(version.expression.name) if version else None)

        return written(sql, known)


@pytest.fixture
def made(monkeypatch) -> list[str]:
    """The statements that are written anew."""
    texts: list[str] = []
    real = translations.written
    monkeypatch.setattr(translations, "written", lambda sql, known: texts.append(sql) or real(sql, known))
    return texts


def test_the_next_epochs_statement_is_not_written_anew(made):
    kept = Translations()
    for tag, versions in (("s_7_0", (3, 4)), ("s_8_0", (4, 9)), ("other_1_2", (9, 4)), ("s_9_0", (0, 1))):
        lake, sql = Lake(), statement(tag, *versions)
        # Of the literal's look-alikes, which differ from epoch to epoch here, nothing may be left out.
        found = kept.written(sql, tag, lake.lookup)
        assert found == lake.direct(sql)
        assert f"'`__ivm_{tag}_a_both` VERSION AS OF {versions[0]}'" in found.sql
    plain = "SELECT a.`k` AS k FROM `__ivm_{0}_a` AS a JOIN delta.`/t` VERSION AS OF {1} AS b ON a.`k` = b.`k`"
    del made[:]
    for tag, version in (("s_7_0", 3), ("s_8_0", 4), ("s_9_1", 4)):
        assert kept.written(plain.format(tag, version), tag, Lake().lookup) == Lake().direct(plain.format(tag, version))
    assert len(made) == 1


def test_two_versions_of_one_table_stay_two(made):
    kept, table = Translations(), "delta.`/t` VERSION AS OF {}"
    sql = f"SELECT a.`k` AS k FROM {table} AS a JOIN {table} AS b ON a.`k` = b.`k`"
    for versions in ((1, 2), (2, 1), (2, 2), (5, 5)):
        assert kept.written(sql.format(*versions), "x", Lake().lookup) == Lake().direct(sql.format(*versions))
    assert len(made) == 2


def test_other_columns_are_written_for_anew(made):
    kept, sql = Translations(), "SELECT a.`k` + 1 AS k FROM `__ivm_x_a` AS a"
    for kind in ("bigint", "int", "double", "bigint"):
        lake = Lake((Column("k", kind),))
        assert kept.written(sql, "x", lake.lookup) == lake.direct(sql)
    assert len(made) == 4


@pytest.mark.parametrize("sql", ["SELECT `k` FROM `__ivm_x_gone` AS a", "SELECT uuid() AS u FROM `__ivm_x_a` AS a"])
def test_what_is_not_portable_is_told_by_its_own_names(sql):
    kept = Translations()
    for _ in range(2):
        with pytest.raises(NotPortableError) as told:
            kept.written(sql, "x", Lake().lookup)
        with pytest.raises(NotPortableError) as expected:
            Lake().direct(sql)
        assert str(told.value) == str(expected.value)


def test_a_raw_literal_is_left_alone():
    sql = "SELECT r'\\' AS a, '`__ivm_x_a`' AS b FROM `__ivm_x_a` AS a"
    try:
        expected = Lake().direct(sql)
    except NotPortableError:
        with pytest.raises(NotPortableError):
            Translations().written(sql, "x", Lake().lookup)
    else:
        assert Translations().written(sql, "x", Lake().lookup) == expected


def test_only_the_last_ones_are_kept(made):
    kept, sql = Translations(most=2), "SELECT a.`k` + {} AS k FROM `__ivm_x_a` AS a"
    for number in (1, 2, 1, 3, 1, 2):
        kept.written(sql.format(number), "x", Lake().lookup)
    assert len(made) == 4


def test_another_process_knows_what_this_one_was_told(made):
    kept = Translations()
    assert kept.empty
    first = kept.written(statement("s_7_0", 3, 4), "s_7_0", Lake().lookup)
    assert kept.fresh
    told = kept.told()
    assert not kept.fresh
    made.clear()
    other = Translations()
    other.take(told)
    assert other.written(statement("s_7_0", 3, 4), "s_7_0", Lake().lookup) == first
    assert not other.empty
    assert not other.fresh
    assert len(made) == 0
    # Of other columns it knows nothing.
    strange = Lake((Column("k", "int"), Column("s", "string")))
    assert other.written(statement("s_7_0", 3, 4), "s_7_0", strange.lookup).columns[0].type == "int"
    assert other.fresh
    assert len(made) == 1

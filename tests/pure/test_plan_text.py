"""Plans of one meaning compare equal, and no others: the guard of `ivm.sql.resolved` rests on it."""

from __future__ import annotations

import pytest

from ivm.sql.plan_text import inlined, numbered

#: Twice the same entry of WITH, whose inner columns have the same numbers.
TWICE = """Project [n#20]
+- Join Inner, (k#10 = k#11)
   :- Project [k#1 AS k#10, n#5 AS n#20]
   :  +- Aggregate [k#1], [k#1, count(1) AS n#5L]
   :     +- LocalRelation [k#1, x#2]
   +- Project [k#1 AS k#11, n#5 AS n#21]
      +- Aggregate [k#1], [k#1, count(1) AS n#5L]
         +- LocalRelation [k#1, x#2]"""
UNITED = """Project [u#1]
+- Union false, false
   :- Project [x#10 AS u#1, x#10 AS v#2]
   :  +- LocalRelation [x#10]
   +- Project [y#11 AS w#3, z#12 AS t#4]
      +- LocalRelation [y#11, z#12]"""
SUBQUERIES = """Project [one#8]
+- Filter (one#8 > two#9)
   +- Project [scalar-subquery#3 [] AS one#8, scalar-subquery#4 [] AS two#9]
      :  :- Aggregate [max(x#5) AS m#6]
      :  :  +- LocalRelation [x#5]
      :  +- Aggregate [min(y#7) AS m#16]
      :     +- LocalRelation [y#7]
      +- LocalRelation [k#1]"""
PADDED = """Project [c#4]
+- Join LeftOuter, (a#1 = b#2)
   :- LocalRelation [a#1]
   +- Project [b#2, coalesce(c#3, 0) AS c#4]
      +- LocalRelation [b#2, c#3]"""
VALUE = """Project [k#1, scalar-subquery#2 [] AS v#3]
:  +- Project [element_at(transform(l#4, lambdafunction((lambda x#5 + 1), lambda x#5, false)), 1) AS e#6]
:     +- LocalRelation [x#7, l#4]
+- LocalRelation [k#1]"""
TWO = """Project [k#1, k2#2, k#1]
+- LocalRelation [k#1, k2#2]"""
LAMBDAS = """Project [transform(a#1, lambdafunction((lambda x#7 + b#2), lambda x#7, false)) AS t#8]
+- LocalRelation [a#1, b#2]"""
GROUPS = """Aggregate [k#1], [k#1, max(y#2) AS m#3]
+- Project [y#2, k#1]
   +- Filter (r#4 = 1)
      +- Window [row_number() windowspecdefinition(y#2 ASC NULLS FIRST) AS r#4], [k#1], [y#2 ASC NULLS FIRST]
         +- LocalRelation [k#1, y#2]"""


@pytest.mark.parametrize(
    ("plan", "found", "put"),
    [
        (TWICE, "Project [n#20]\n", "Project [n#21]\n"),
        (TWICE, "(k#10 = k#11)", "(k#10 = n#21)"),
        (UNITED, "Project [u#1]\n", "Project [v#2]\n"),
        (UNITED, "Project [y#11 AS w#3, z#12 AS t#4]", "Project [z#12 AS w#3, y#11 AS t#4]"),
        (SUBQUERIES, "(one#8 > two#9)", "(two#9 > one#8)"),
        (SUBQUERIES, "Project [one#8]\n", "Project [two#9]\n"),
        (VALUE, "(lambda x#5 + 1)", "(x#7 + 1)"),
        (TWO, "k2#2, k#1]\n", "k2#2, k2#2]\n"),
        (PADDED, "LeftOuter", "Inner"),
        (PADDED, "LeftOuter", "RightOuter"),
        (PADDED, "Project [c#4]\n", "Project [coalesce(c#4, 0) AS c#5]\n"),
        (LAMBDAS, "(lambda x#7 + b#2)", "(b#2 + b#2)"),
        (LAMBDAS, "a#1, b#2]", "b#2, a#1]"),
        (GROUPS, "max(y#2)", "max(k#1)"),
        (GROUPS, "[k#1, max(y#2) AS m#3]", "[max(y#2) AS m#3, k#1]"),
        (GROUPS, "AS r#4], [k#1]", "AS r#4], [y#2]"),
    ],
)
def test_plans_of_another_meaning_differ(plan, found, put):
    assert found in plan
    assert inlined(plan) is not None
    assert inlined(plan) != inlined(plan.replace(found, put))


@pytest.mark.parametrize(
    ("plan", "found", "put"),
    [
        (GROUPS, "[y#2, k#1]\n", "[k#1, y#2]\n"),
        (GROUPS, "AS r#4], [k#1]", "AS rank#14], [k#1]"),
        (LAMBDAS, "lambda x#7", "lambda each#99"),
        (TWICE, "Project [k#1 AS k#11, n#5 AS n#21]", "Project [n#5 AS m#21, k#1 AS k#11]"),
        (PADDED, "Project [b#2, coalesce(c#3, 0) AS c#4]", "Project [coalesce(c#3, 0) AS c#4, b#2, c#3]"),
    ],
)
def test_names_and_projections_within_are_not_told_apart(plan, found, put):
    made = plan.replace(found, put).replace("(r#4", "(rank#14") if "rank#14" in put else plan.replace(found, put)
    assert made != plan
    assert inlined(plan) == inlined(made)


def test_rows_without_columns_are_read():
    plan = "Project [a#1]\n+- Join Cross\n   :- LocalRelation [a#1]\n   +- Project\n      +- LocalRelation [b#2]"
    assert inlined(plan) == inlined(plan.replace("a#1", "c#7")) is not None


def test_the_first_of_several_columns_is_padded_by_padding_each():
    """As Spark has a chain of FULL JOIN ... USING, and as it has the same columns written out."""
    merged = """Project [coalesce(k#9, c#3) AS k#10]
+- Join FullOuter, (k#9 = c#3)
   :- Project [coalesce(a#1, b#2) AS k#9]
   :  +- Join FullOuter, (a#1 = b#2)
   :     :- LocalRelation [a#1]
   :     +- LocalRelation [b#2]
   +- LocalRelation [c#3]"""
    written = """Project [coalesce(coalesce(a#1, b#2), c#3) AS k#10]
+- Join FullOuter, (coalesce(a#1, b#2) = c#3)
   :- Join FullOuter, (a#1 = b#2)
   :  :- LocalRelation [a#1]
   :  +- LocalRelation [b#2]
   +- LocalRelation [c#3]"""
    assert inlined(merged) == inlined(written) is not None
    assert inlined(merged) != inlined(
        written.replace("Project [coalesce(coalesce(a#1", "Project [coalesce(coalesce(b#2")
    )


@pytest.mark.parametrize(
    "plan",
    [
        "Project [a#1, , AS b#2]\n+- LocalRelation [a#1]",
        "Project [a text\nof two lines AS b#2]\n+- LocalRelation [a#1]",
        "Filter (c#2 > 3)\n+- Project [replace(s#1, (, ) AS c#2, (x#3 + 1) AS d#4]\n   +- LocalRelation [s#1, x#3]",
        "Sort [k#1 ASC]\n+- Project [k#1, k#1]\n   +- LocalRelation [k#1]",
        "Filter (k#2 > 1)\n+- LocalRelation [k#1]",
        "Sample 0.0, 0.5, false, 7\n+- LocalRelation [a#1]",
    ],
)
def test_what_cannot_be_read_is_compared_as_it_is(plan):
    assert inlined(plan) is None
    assert numbered(plan) == numbered(plan.replace("#1", "#77"))

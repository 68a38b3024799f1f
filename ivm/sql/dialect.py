"""Spark SQL as sqlglot shall read it for us: functions stay as they are written.

sqlglot knows hundreds of functions by meaning and prints them in its own spelling; what a view calls must reach Spark
unchanged, so only the few that the compiler itself looks into are parsed as more than a name with arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType

#: Functions that the compiler looks into.
_KNOWN = ("COUNT", "SUM", "AVG", "MIN", "MAX", "COALESCE")
#: Functions whose arguments have a syntax of their own.
_SYNTAX = (
    "CAST", "TRY_CAST", "EXTRACT", "POSITION", "OVERLAY", "TRIM", "SUBSTRING", "SUBSTR", "BROADCAST", "BROADCASTJOIN",
    "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLEMERGE", "SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL",
)  # fmt: skip
#: The token of >>>, one that no other Spark statement has.
_UNSIGNED_SHIFT = TokenType.CARET_AT
#: Operators that bind after +, - and ||, and after shifts, those of the last level first: as in Spark, not in sqlglot.
_LEVELS: tuple[dict[TokenType, type[exp.Binary]], ...] = (
    {**Spark.Parser.EQUALITY, **Spark.Parser.COMPARISON},
    {TokenType.PIPE: exp.BitwiseOr},
    {TokenType.CARET: exp.BitwiseXor},
    {TokenType.AMP: exp.BitwiseAnd},
)
#: Functions whose first of three arguments is a bare unit, and these units: words of Spark's grammar, not columns.
_UNIT_FIRST = ("DATEADD", "DATE_ADD", "TIMESTAMPADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF", "TIMEDIFF")
_UNITS = (
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "DAYOFYEAR",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
)


def _unit_first(name: str) -> Callable[[list[exp.Expression]], exp.Expression]:
    """Reads the arguments of a function that may begin with a unit."""

    def read(args: list[exp.Expression]) -> exp.Expression:
        first = args[0] if len(args) == 3 else None
        if (
            isinstance(first, exp.Column)
            and len(first.parts) == 1
            and not first.this.args.get("quoted")
            and first.name.upper() in _UNITS
        ):
            args = [exp.var(first.name), *args[1:]]
        return exp.Anonymous(this=name, expressions=args)

    return read


class IvmSpark(Spark):  # type: ignore[misc]
    """The dialect the compiler parses with; it prints as Spark's, negations as people write them."""

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        #: 'it''s' is one string, as in Spark 4.
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - sqlglot's own way
        #: In Spark there may be a space: X '1F'.
        HEX_STRINGS: ClassVar[list[Any]] = [*Spark.Tokenizer.HEX_STRINGS, ("X '", "'"), ("x '", "'")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = Spark.Tokenizer.KEYWORDS | {">>>": _UNSIGNED_SHIFT}

    class Generator(Spark.Generator):  # type: ignore[misc]
        #: A WITH stays where it is, and a SELECT keeps its QUALIFY: what was Spark's is printed for Spark.
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expression]]] = set()
        TRANSFORMS: ClassVar[dict[type[exp.Expression], Any]] = {
            k: v for k, v in Spark.Generator.TRANSFORMS.items() if k is not exp.Select
        }

        def not_sql(self, expression: exp.Not) -> str:
            """Write `NOT x IS NULL` and the like as `x IS NOT NULL`.

            Spark plans the two differently inside a subquery, though they mean the same.
            """
            inner = expression.this
            word = {exp.Is: "IS", exp.In: "IN", exp.Like: "LIKE", exp.Between: "BETWEEN"}.get(type(inner))
            sql = self.sql(inner)
            operand = self.sql(inner, "this") if word else ""
            if not word or not sql.startswith(f"{operand} {word} "):
                return str(super().not_sql(expression))
            rest = sql[len(operand) + len(word) + 2 :]
            return f"{operand} IS NOT {rest}" if word == "IS" else f"{operand} NOT {word} {rest}"

    class Parser(Spark.Parser):  # type: ignore[misc]
        #: `GROUP BY window(d, '1 day')` calls a function; a WINDOW clause is found after the keys anyway.
        QUERY_MODIFIER_TOKENS = Spark.Parser.QUERY_MODIFIER_TOKENS - {TokenType.WINDOW}
        FUNCTIONS: ClassVar[dict[str, Any]] = {k: v for k, v in Spark.Parser.FUNCTIONS.items() if k in _KNOWN} | {
            n: _unit_first(n) for n in _UNIT_FIRST
        }
        TERM: ClassVar[dict[TokenType, Any]] = {
            TokenType.PLUS: exp.Add,
            TokenType.DASH: exp.Sub,
            TokenType.DPIPE: lambda this, expression: exp.DPipe(this=this, expression=expression, safe=True),
        }
        FUNCTION_PARSERS = {k: v for k, v in Spark.Parser.FUNCTION_PARSERS.items() if k in _SYNTAX}  # noqa: RUF012
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
            k: v for k, v in Spark.Parser.NO_PAREN_FUNCTION_PARSERS.items() if k in ("CASE", "IF")
        }

        def _parse_bitwise(self) -> exp.Expression | None:
            """What Spark's grammar calls a value: all that binds before IN, LIKE, BETWEEN and IS, comparisons, too."""
            return self._parse_operators(0)

        def _parse_operators(self, level: int) -> exp.Expression | None:
            """Operators of a level and of those that bind before it, from left to right."""
            if level == len(_LEVELS):
                return self._parse_shifts()
            this = self._parse_operators(level + 1)
            while self._match_set(_LEVELS[level]):
                made, comments = _LEVELS[level][self._prev.token_type], self._prev_comments
                this = self._build_predicate(made, this, self._parse_operators(level + 1), comments=comments)
            return this

        def _parse_shifts(self) -> exp.Expression | None:
            this = self._parse_term()
            while True:
                if self._match_pair(TokenType.LT, TokenType.LT):
                    this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
                elif self._match_pair(TokenType.GT, TokenType.GT):
                    this = self.expression(exp.BitwiseRightShift(this=this, expression=self._parse_term()))
                elif self._match(_UNSIGNED_SHIFT):
                    operands = [this, self._parse_term()]
                    this = self.expression(exp.Anonymous(this="SHIFTRIGHTUNSIGNED", expressions=operands))
                else:
                    return this

        def _parse_factor_operand(self) -> exp.Expression | None:
            """An operand with its collation, which binds before all operators."""
            this = super()._parse_factor_operand()
            while self._match(TokenType.COLLATE):
                this = self.expression(exp.Collate(this=this, expression=self._parse_unary()))
                self._normalize_collate(this)
            return this


#: What compares two operands.
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
#: Spark 4.2's aggregate functions beyond those parsed by meaning (its own list, by the class that implements each).
AGGREGATES = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "approx_top_k_accumulate",
        "approx_top_k_combine",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitmap_and_agg",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "corr",
        "count",
        "count_if",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "every",
        "first",
        "first_value",
        "histogram_numeric",
        "hll_sketch_agg",
        "hll_union_agg",
        "kll_merge_agg_bigint",
        "kll_merge_agg_double",
        "kll_merge_agg_float",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_double",
        "kll_sketch_agg_float",
        "kurtosis",
        "last",
        "last_value",
        "listagg",
        "max",
        "max_by",
        "mean",
        "measure",
        "median",
        "min",
        "min_by",
        "mode",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "schema_of_variant_agg",
        "skewness",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "theta_intersection_agg",
        "theta_sketch_agg",
        "theta_union_agg",
        "try_avg",
        "try_sum",
        "tuple_intersection_agg_double",
        "tuple_intersection_agg_integer",
        "tuple_sketch_agg_double",
        "tuple_sketch_agg_integer",
        "tuple_union_agg_double",
        "tuple_union_agg_integer",
        "var_pop",
        "var_samp",
        "variance",
        "vector_avg",
        "vector_sum",
    ]
)
#: Table-generating functions, which may stand in a select list.
GENERATORS = frozenset(
    ["explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"]
)


def function_name(node: exp.Expression) -> str:
    """A function's name in lower case, "" for anything else."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def is_aggregate(node: exp.Expression) -> bool:
    """Whether a node calls an aggregate function of Spark's."""
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES)

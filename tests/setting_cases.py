"""Session settings that conditions could depend on, values to try, and conditions that depend on some."""

from __future__ import annotations

import random
from pathlib import Path

from condition_cases import ZONES

_BOTH = ("true", "false")

FOLLOWED = {
    "spark.sql.caseSensitive": _BOTH,
    "spark.sql.ansi.enabled": _BOTH,
    "spark.sql.ansi.doubleQuotedIdentifiers": _BOTH,
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "spark.sql.session.timeZone": ZONES,
}
"""What delvec reads conditions by."""

NOT_FOLLOWED = {
    "spark.sql.ansi.enforceReservedKeywords": _BOTH,
    "spark.sql.ansi.relationPrecedence": _BOTH,
    "spark.sql.legacy.bangEqualsNot": _BOTH,
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": _BOTH,
    "spark.sql.legacy.allowNegativeScaleOfDecimal": _BOTH,
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": _BOTH,
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": _BOTH,
    "spark.sql.parquet.datetimeRebaseModeInRead": ("CORRECTED", "LEGACY", "EXCEPTION"),
    "spark.sql.parquet.int96RebaseModeInRead": ("CORRECTED", "LEGACY", "EXCEPTION"),
    "spark.sql.parquet.int96TimestampConversion": _BOTH,
}
"""What switches pruning off at other values than the expected ones."""

ANY_VALUE = {
    "spark.sql.parser.escapedStringLiterals": _BOTH,
    "spark.sql.variable.substitute": _BOTH,
    "spark.sql.legacy.consecutiveStringLiterals.enabled": _BOTH,
    "spark.sql.legacy.timeParserPolicy": ("CORRECTED", "LEGACY", "EXCEPTION"),
    "spark.sql.legacy.literal.pickMinimumPrecision": _BOTH,
    "spark.sql.decimalOperations.allowPrecisionLoss": _BOTH,
    "spark.sql.optimizer.inSetConversionThreshold": ("0", "2", "10", "400"),
    "spark.sql.optimizer.inSetSwitchThreshold": ("0", "400"),
    "spark.sql.legacy.duplicateBetweenInput": _BOTH,
    "spark.sql.legacy.nullInEmptyListBehavior": _BOTH,
    "spark.sql.legacy.charVarcharAsString": _BOTH,
    "spark.sql.readSideCharPadding": _BOTH,
    "spark.sql.legacy.noCharPaddingInPredicate": _BOTH,
    "spark.sql.preserveCharVarcharTypeInfo": _BOTH,
    "spark.sql.legacy.interval.enabled": _BOTH,
    "spark.sql.legacy.castComplexTypesToString.enabled": _BOTH,
    "spark.sql.timeType.enabled": _BOTH,
    "spark.sql.icu.caseMappings.enabled": _BOTH,
    "spark.sql.datetime.java8API.enabled": _BOTH,
    "spark.sql.constraintPropagation.enabled": _BOTH,
    "spark.sql.alwaysInlineCommonExpr": _BOTH,
    "spark.sql.codegen.wholeStage": _BOTH,
    "spark.sql.codegen.factoryMode": ("FALLBACK", "CODEGEN_ONLY", "NO_CODEGEN"),
    "spark.sql.subexpressionElimination.enabled": _BOTH,
    "spark.sql.parquet.filterPushdown": _BOTH,
    "spark.sql.parquet.filterPushdown.date": _BOTH,
    "spark.sql.parquet.filterPushdown.decimal": _BOTH,
    "spark.sql.parquet.filterPushdown.stringPredicate": _BOTH,
    "spark.sql.parquet.filterPushdown.timestamp": _BOTH,
    "spark.sql.parquet.enableVectorizedReader": _BOTH,
    "spark.sql.parquet.recordLevelFilter.enabled": _BOTH,
}
"""What seems to change conditions, but changes none that prunes: only texts that decide nothing."""

IRRELEVANT = frozenset(
    (Path(__file__).parent / "irrelevant_settings.txt").read_text(encoding="utf-8").split()
)
"""Every other setting of Spark 4.1 to 4.3: it changes no condition that prunes."""


def random_settings(rng: random.Random) -> dict[str, str]:
    """Values for some settings, mostly such that conditions prune."""
    chosen = {name: rng.choice(values) for name, values in FOLLOWED.items() if rng.random() < 0.6}
    names = rng.sample(sorted(ANY_VALUE), rng.randint(0, 8))
    chosen |= {name: rng.choice(ANY_VALUE[name]) for name in names}
    if rng.random() < 0.15:
        name = rng.choice(sorted(NOT_FOLLOWED))
        chosen[name] = rng.choice(NOT_FOLLOWED[name])
    return chosen


_TIMES = (
    "2020-01-01 00:00:00",
    "2020-01-01",
    "2020-01-02 12:00:00",
    "2021-03-28 02:30:00",
    "1900-01-01 00:00:00",
)
_ZONES = ("", "", "", "Z", "+05:00", "-08:00", " Europe/Berlin")
_TIME_FORMS = (
    *(
        "TIMESTAMP '{}'",
        'TIMESTAMP "{}"',
        "CAST('{}' AS TIMESTAMP)",
        "'{}'::timestamp",
        "'{}'::TIMESTAMP_NTZ",
    ),
    *("TIMESTAMP_NTZ '{}'", "TIMESTAMP_LTZ '{}'", "to_timestamp('{}')", "timestamp('{}')", "'{}'", '"{}"'),
    *("CAST('{}' AS DATE)", "DATE '{}'", "CAST(TIMESTAMP '{}' AS DATE)", "TRY_CAST('{}' AS TIMESTAMP)"),
    *(
        "CAST(DATE '{}' AS TIMESTAMP)",
        "to_date('{}')",
        "to_timestamp_ltz('{}')",
        "CAST('{}' AS TIMESTAMP_LTZ)",
    ),
)
_TEXTS = ("a", "ab", "abc", "b", "ps", "s", "S", "é", "a%", "")
_TEXT_FORMS = (
    "'{}'",
    '"{}"',
    '"{}"',
    "r'{}'",
    'r"{}"',
    "'{}' ''",
    "'{}' \"\"",
    "'{}'''",
    '"{}"""',
    "'{}\\\\'",
)
_NUMBERS = (
    "1e0",
    "1E1",
    "1.5e0",
    "12e-1",
    "3D",
    "0.1F",
    "1BD",
    "1e0BD",
    "5L",
    "3S",
    "2Y",
    ".5",
    "1.",
    "1.50",
)
_OPERATORS = ("=", "<", "<=", ">", ">=", "<>", "<=>")


def sensitive_text(rng: random.Random) -> str:
    """A condition of a kind that settings read in more than one way. Spark may refuse it."""
    operator = rng.choice(_OPERATORS)
    kind = rng.randrange(10)
    if kind < 4:
        column = rng.choice(("t", "t", "n", "n", "d", "pd", "T"))
        moment = rng.choice(_TIMES) + rng.choice(_ZONES)
        literal = rng.choice(_TIME_FORMS).format(moment)
        if rng.random() < 0.2:
            return f"{column} IN ({literal}, {rng.choice(_TIME_FORMS).format(rng.choice(_TIMES))})"
        return f"{column} {operator} {literal}"
    if kind < 8:
        column = rng.choice(("s", "ps", '"s"', '"ps"', "`s`", "S", '"S"', "g.k.s", '"g"."k"."s"', 'g."k".s'))
        literals = [rng.choice(_TEXT_FORMS).format(rng.choice(_TEXTS)) for _ in range(2)]
        return rng.choice(
            (
                f"{column} {operator} {literals[0]}",
                f"{literals[0]} {operator} {column}",
                f"{column} IN ({', '.join(literals)})",
                f"{column} BETWEEN {literals[0]} AND {literals[1]}",
                f"{column} LIKE {literals[0]}",
                f"startswith({column}, {literals[0]})",
                f"NOT ({column} {operator} {literals[0]})",
            )
        )
    column = rng.choice(("i", "l", "h", "f", "x", "m", "w", "pi", "px", "g.c", '"i"', "I"))
    numbers = [rng.choice(("", "-")) + rng.choice(_NUMBERS) for _ in range(2)]
    if kind == 8:
        return f"{column} IN ({numbers[0]}, {numbers[1]})"
    return f"{column} {operator} {numbers[0]}"

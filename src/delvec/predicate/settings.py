"""The session settings that change how Spark reads a condition, as one value.

A condition prunes only if delvec is certain to read it as Spark does. There are two kinds of settings that
could change the meaning of a condition:

- delvec follows the setting: it is a field of ``SqlSettings``;
- delvec does not follow it: any unexpected value switches pruning off.

Settings that affect only parts that decide nothing anyway (functions, arithmetic, subqueries, strings with
escapes), or how a query runs, are not listed here. A test classifies every setting of the running Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

CASE_SENSITIVE = "spark.sql.caseSensitive"
TIME_ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"
DOUBLE_QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"
TIMESTAMP_TYPE = "spark.sql.timestampType"
REGEX_NAMES = "spark.sql.parser.quotedRegexColumnNames"

FOLLOWED = frozenset((CASE_SENSITIVE, TIME_ZONE, ANSI, DOUBLE_QUOTED_NAMES, TIMESTAMP_TYPE))
"""The settings that ``SqlSettings`` has a field for."""

DEFAULTS_BY_ENVIRONMENT = (TIME_ZONE, ANSI)
"""The settings whose default differs between Java processes: if they are not set, Spark must be asked."""

_FALSE, _TRUE = frozenset(("false",)), frozenset(("true",))

EXPECTED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        # Keywords that are functions instead of columns, and the precedence of joins.
        "spark.sql.ansi.enforceReservedKeywords": _FALSE,
        "spark.sql.ansi.relationPrecedence": _FALSE,
        "spark.sql.legacy.bangEqualsNot": _FALSE,
        # `a.b` may be a regular expression for names.
        REGEX_NAMES: _FALSE,
        # The type of a number, and the common type of two values that are compared.
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled": _FALSE,
        "spark.sql.legacy.allowNegativeScaleOfDecimal": _FALSE,
        "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": _FALSE,
        "spark.sql.legacy.typeCoercion.datetimeToString.enabled": _FALSE,
        "spark.sql.session.collation.default": frozenset(("utf8_binary",)),
        "spark.sql.timestampNanosTypes.enabled": _FALSE,
        # Whether functions of the user hide Spark's.
        "spark.sql.functionResolution.sessionOrder": frozenset(("second", "last")),
        "spark.sql.path.enabled": _FALSE,
        # An analyzer that Spark does not use by default.
        "spark.sql.analyzer.singlePassResolver.enabled": _FALSE,
        "spark.sql.analyzer.singlePassResolver.enabledTentatively": _FALSE,
        "spark.sql.analyzer.singlePassResolver.returnSinglePassResultInDualRun": _FALSE,
        # Dates and times that are shifted when they are read from files: statistics have the stored values.
        "spark.sql.parquet.datetimeRebaseModeInRead": frozenset(("corrected", "exception")),
        "spark.sql.parquet.int96RebaseModeInRead": frozenset(("corrected", "exception")),
        "spark.sql.legacy.parquet.datetimeRebaseModeInRead": frozenset(("corrected", "exception")),
        "spark.sql.parquet.int96TimestampConversion": _FALSE,
    }
)
"""The values, in lower case, under which delvec reads conditions as Spark does."""

RELEVANT = FOLLOWED | EXPECTED.keys()
"""All settings that must be known before a condition prunes."""


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """How the session reads conditions. The defaults are Spark's.

    case_sensitive       column names are case-sensitive
    time_zone            the zone of times that name none
    ansi                 ANSI mode
    double_quoted_names  ``"y"`` is a name, not a string
    zoned_timestamps     the word TIMESTAMP means a type with a time zone
    known                delvec knows how Spark reads conditions; if not, they prune nothing
    """

    case_sensitive: bool = False
    time_zone: str = "UTC"
    ansi: bool = True
    double_quoted_names: bool = False
    zoned_timestamps: bool = True
    known: bool = True

    @classmethod
    def of(cls, values: Mapping[str, str]) -> SqlSettings:
        """The value for a session in which these settings are set; the others have Spark's defaults."""
        relevant = {name: str(value).strip().lower() for name, value in values.items() if name in RELEVANT}
        ansi = relevant.get(ANSI, "true") == "true"
        return cls(
            case_sensitive=relevant.get(CASE_SENSITIVE) == "true",
            time_zone=str(values.get(TIME_ZONE, "UTC")),
            ansi=ansi,
            double_quoted_names=ansi and relevant.get(DOUBLE_QUOTED_NAMES) == "true",
            zoned_timestamps=relevant.get(TIMESTAMP_TYPE, "timestamp_ltz") == "timestamp_ltz",
            known=all(
                relevant[name] in _EXPECTED_OR_FOLLOWED[name] for name in relevant.keys() - {TIME_ZONE}
            ),
        )


_FLAG = _FALSE | _TRUE
_EXPECTED_OR_FOLLOWED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        **EXPECTED,
        CASE_SENSITIVE: _FLAG,
        ANSI: _FLAG,
        DOUBLE_QUOTED_NAMES: _FLAG,
        TIMESTAMP_TYPE: frozenset(("timestamp_ltz", "timestamp_ntz")),
    }
)

SPARK_DEFAULTS = SqlSettings()
"""The settings if there is no session."""

"""The session settings that change how Spark reads a condition, as one value.

A condition prunes only where delvec is sure to read it as Spark does. Each setting that could change the
reading is one of two kinds:

- delvec follows it: it is a field of ``SqlSettings``;
- delvec does not: any value but the expected ones switches pruning off.

Settings are missing here if they only change what decides nothing anyway (functions, arithmetic, subqueries,
strings with escapes), or how a query runs. A test classes every setting of the running Spark.
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
"""The settings whose default differs between Java processes: where they are unset, Spark must be asked."""

_FALSE, _TRUE = frozenset(("false",)), frozenset(("true",))

EXPECTED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        # Words that are functions rather than columns, and joins that bind otherwise.
        "spark.sql.ansi.enforceReservedKeywords": _FALSE,
        "spark.sql.ansi.relationPrecedence": _FALSE,
        "spark.sql.legacy.bangEqualsNot": _FALSE,
        # `a.b` may be a pattern of names.
        REGEX_NAMES: _FALSE,
        # What type a number has, and what two types are compared as.
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled": _FALSE,
        "spark.sql.legacy.allowNegativeScaleOfDecimal": _FALSE,
        "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": _FALSE,
        "spark.sql.legacy.typeCoercion.datetimeToString.enabled": _FALSE,
        "spark.sql.session.collation.default": frozenset(("utf8_binary",)),
        "spark.sql.timestampNanosTypes.enabled": _FALSE,
        # Functions of the user that come before Spark's.
        "spark.sql.functionResolution.sessionOrder": frozenset(("second", "last")),
        "spark.sql.path.enabled": _FALSE,
        # An analyzer that Spark does not use by default.
        "spark.sql.analyzer.singlePassResolver.enabled": _FALSE,
        "spark.sql.analyzer.singlePassResolver.enabledTentatively": _FALSE,
        "spark.sql.analyzer.singlePassResolver.returnSinglePassResultInDualRun": _FALSE,
        # Dates and times that are read from files as other values than the statistics have.
        "spark.sql.parquet.datetimeRebaseModeInRead": frozenset(("corrected", "exception")),
        "spark.sql.parquet.int96RebaseModeInRead": frozenset(("corrected", "exception")),
        "spark.sql.legacy.parquet.datetimeRebaseModeInRead": frozenset(("corrected", "exception")),
        "spark.sql.parquet.int96TimestampConversion": _FALSE,
    }
)
"""The values, in lower case, under which delvec reads conditions as Spark does."""

RELEVANT = FOLLOWED | EXPECTED.keys()
"""Every setting to look at before a condition prunes."""


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """How the session reads conditions. The defaults are Spark's.

    case_sensitive       names of columns must be spelled as in the schema
    time_zone            of times that name none
    ansi                 ANSI mode
    double_quoted_names  ``"y"`` is a name, not a string
    zoned_timestamps     the word TIMESTAMP means a type with a time zone
    known                delvec knows how Spark reads conditions; else they prune nothing
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
        found = {name: str(value).strip().lower() for name, value in values.items() if name in RELEVANT}
        ansi = found.get(ANSI, "true") == "true"
        return cls(
            case_sensitive=found.get(CASE_SENSITIVE) == "true",
            time_zone=str(values.get(TIME_ZONE, "UTC")),
            ansi=ansi,
            double_quoted_names=ansi and found.get(DOUBLE_QUOTED_NAMES) == "true",
            zoned_timestamps=found.get(TIMESTAMP_TYPE, "timestamp_ltz") == "timestamp_ltz",
            known=all(found[name] in _EXPECTED_OR_FOLLOWED[name] for name in found.keys() - {TIME_ZONE}),
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
"""The settings where there is no session to ask."""

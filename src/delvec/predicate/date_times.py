"""Parses dates and times as Spark does.

Only ISO forms are parsed: ``yyyy-MM-dd``, and that with ``HH:mm:ss`` after a space or a ``T``, up to six
digits of a fraction, and ``Z`` or an offset. Spark accepts more forms; those decide nothing in a condition.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})", re.ASCII)
_REGION = re.compile(r"[A-Za-z_]+(/[A-Za-z0-9_+-]+)+", re.ASCII)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST_OFFSET = timedelta(hours=18)


def session_zone(name: str) -> tzinfo | None:
    """The time zone with this name; None if Java may understand the name differently."""
    if name in ("UTC", "Z", "GMT", "Etc/UTC"):
        return UTC
    if name[:1] in ("+", "-"):
        return _offset(name)
    try:
        return ZoneInfo(name) if _REGION.fullmatch(name) else None
    except (OSError, ValueError, KeyError):
        return None


def day_number(text: str) -> int | None:
    """Days since 1970 of ``yyyy-MM-dd``."""
    try:
        return (date.fromisoformat(text) - _EPOCH.date()).days if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def iso_day(number: int) -> str:
    """``yyyy-MM-dd`` of days since 1970."""
    return (_EPOCH.date() + timedelta(days=number)).isoformat()


def instant(text: str, zone: tzinfo | None) -> int | None:
    """Microseconds since 1970 UTC of an ISO time; None if the text is not one, or ambiguous in ``zone``."""
    parsed = _parsed(text)
    if parsed is None:
        return None
    local, offset = parsed
    if offset is not None:
        return _micros(local.replace(tzinfo=offset))
    if zone is None:
        return None
    if isinstance(zone, ZoneInfo) and local.year < 1970:
        return None  # Java and Python have different zone rules for these years
    first, second = local.replace(tzinfo=zone, fold=0), local.replace(tzinfo=zone, fold=1)
    return _micros(first) if first.utcoffset() == second.utcoffset() else None


def wall_clock(text: str) -> int | None:
    """Microseconds since 1970 of an ISO time without a zone."""
    parsed = _parsed(text)
    return None if parsed is None or parsed[1] is not None else _micros(parsed[0].replace(tzinfo=UTC))


def _parsed(text: str) -> tuple[datetime, tzinfo | None] | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, zone = match.groups()
    try:
        local = datetime.fromisoformat(f"{day}T{time or '00:00:00'}.{(fraction or '').ljust(6, '0')}")
    except ValueError:
        return None
    if zone is None:
        return local, None
    offset = UTC if zone == "Z" else _offset(zone)
    return None if offset is None else (local, offset)


def _offset(text: str) -> tzinfo | None:
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    sign, hours, minutes = match.groups()
    size = timedelta(hours=int(hours), minutes=int(minutes))
    if size > _LARGEST_OFFSET or int(minutes) > 59:
        return None
    return timezone(-size if sign == "-" else size)


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)

"""Times of commits: milliseconds since 1970 in metadata, datetimes with a zone for users."""

from __future__ import annotations

import datetime as dt

from delvec.errors import FormatError, InvalidOperationError

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)

_CLOCK_SKEW = dt.timedelta(minutes=1)  # how far the clock that a timestamp was taken from may be ahead


def parse_instant(timestamp: dt.datetime | str) -> dt.datetime:
    """The time that a user gives; without a zone it is in UTC."""
    if isinstance(timestamp, str):
        try:
            timestamp = dt.datetime.fromisoformat(timestamp)
        except ValueError:
            raise InvalidOperationError(
                f"timestamp is {timestamp!r}, expected ISO 8601 such as 2025-01-31T12:00:00Z"
            ) from None
    return timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=dt.UTC)


def millis_of(timestamp: dt.datetime) -> int:
    """The whole milliseconds up to the time."""
    return (timestamp - EPOCH) // MILLISECOND


def as_datetime(millis: int) -> dt.datetime:
    """The time of a commit; FormatError if Python has no such time."""
    try:
        return EPOCH + millis * MILLISECOND
    except OverflowError:
        raise FormatError(f"commit time is {millis} ms, expected one before the year 10000") from None


def is_future(timestamp: dt.datetime) -> bool:
    """Whether the time is clearly after now: the version that it will mean is not there yet."""
    return timestamp > dt.datetime.now(dt.UTC) + _CLOCK_SKEW

"""DEFAULT in the rows of VALUES: the place of each in its row."""

from __future__ import annotations

import pytest

from delvec.statements.cursor import Span
from delvec.statements.default_keyword import _values
from delvec.statements.lexer import tokenize


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("VALUES (1, DEFAULT), (DEFAULT, 2), DEFAULT", [1, 0, 0]),
        ("VALUES (NULL::MAP<INT,STRING>, DEFAULT, 7)", [1]),
        ("VALUES (NULL::MAP<INT,ARRAY<INT>>, DEFAULT), (f(1, 2), DEFAULT)", [1, 1]),
        ("VALUES (NULL::STRUCT<a: INT, b: MAP<INT, ARRAY<INT>>>, NULL::STRUCT<>, DEFAULT)", [2]),
        ("VALUES (1::INT < 5, DEFAULT, 2::DECIMAL(3, 1) > 1, DEFAULT)", [1, 3]),
    ],
)
def test_places(text, places):
    assert [place for place, _ in _values(Span(text, tokenize(text)[:-1]))] == places

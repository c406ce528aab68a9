"""An array literal comes back as it went in."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from postgres import arrays

pytestmark = pytest.mark.django_db
MOMENT = datetime(2026, 3, 1, 12, 30, 59, 123456, tzinfo=UTC)


class TestLiteral:
    @pytest.mark.parametrize(
        ("kind", "values"),
        [
            ("text", ["", "NULL", "null", None, 'a"b', "a\\b", "{,}", "ü ", "two\nlines", "'"]),
            ("bigint", [0, -1, 2**63 - 1, None]),
            ("float8", [0.1, -1e300, 1e-300, 5, None]),
            ("boolean", [True, False, None]),
            ("timestamptz", [MOMENT, None]),
            ("text", []),
        ],
    )
    def test_comes_back_as_it_went_in(self, kind: str, values: list[Any]) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT %s::{kind}[]", [arrays.literal(values)])
            assert cursor.fetchone() == (values,)

    @pytest.mark.parametrize("value", [object(), [1], datetime(2026, 3, 1), b"x"])
    def test_of_what_it_does_not_know_is_refused(self, value: Any) -> None:
        with pytest.raises(TypeError):
            arrays.literal([value])


class TestPlain:
    @pytest.mark.parametrize(
        ("kind", "values"),
        [("bigint", [0, -1, 2**63 - 1]), ("uuid", [UUID(int=0), UUID(int=2**128 - 1)]), ("uuid", [])],
    )
    def test_comes_back_as_it_went_in(self, kind: str, values: list[Any]) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT %s::{kind}[]", [arrays.plain(values)])
            assert cursor.fetchone() == (values,)

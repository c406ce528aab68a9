"""What may be stored as JSON, to the byte and to the level."""

import json
import math
from typing import Any

import pytest

from jobs.domain import payloads
from jobs.errors import InvalidJson, PayloadTooLarge
from tests.looped import looped


def _encoded(value: Any, limit: int = 1_000_000) -> str:
    return payloads.encoded(value, limit_bytes=limit, subject="payload")


def _nested(levels: int, *, kind: type, around: Any = 1) -> Any:
    value: Any = around
    for _ in range(levels):
        value = [value] if kind is list else {"k": value}
    return value


class TestSize:
    @pytest.mark.parametrize(("text", "size"), [("a" * 8, 10), ("é" * 4, 10), ("\U0001f600" * 2, 10)])
    def test_is_counted_in_bytes_of_utf8_and_may_be_exactly_the_limit(self, text: str, size: int) -> None:
        assert _encoded(text, limit=size) == f'"{text}"'
        with pytest.raises(PayloadTooLarge) as refused:
            _encoded(text, limit=size - 1)
        assert refused.value.numbers == {"what": "payload", "size": size, "limit": size - 1}
        assert refused.value.message == f"The payload has {size} bytes; at most {size - 1} are allowed."

    def test_counts_no_spaces_between_the_parts(self) -> None:
        assert _encoded({"a": [1, 2]}) == '{"a":[1,2]}'


class TestValues:
    @looped(
        "value",
        [None, True, 0, -1, 1.5, 1e308, 5e-324, "", "\U0001f600", "\x01\u2028\u007f", [], {}, (1, 2), {"": None}],
    )
    def test_of_json_are_taken(self, value: Any) -> None:
        assert json.loads(_encoded(value)) == (list(value) if isinstance(value, tuple) else value)

    @looped(
        ("value", "why"),
        [
            (math.nan, "it holds NaN or an infinity"),
            ([math.inf], "it holds NaN or an infinity"),
            ({"a": -math.inf}, "it holds NaN or an infinity"),
            ("a\x00", "NUL"),
            (["\x00"], "NUL"),
            ({"a\x00": 1}, "NUL"),
            ({"a": {"b": ["\x00"]}}, "NUL"),
            ("\ud800", "surrogate"),
            (["\udfff"], "surrogate"),
            ({"\ud83d": 1}, "surrogate"),
            ({1: "a"}, "keys must be strings, got int"),
            ({None: "a"}, "keys must be strings, got NoneType"),
            ({"a": {(1, 2): 1}}, "keys must be strings, got tuple"),
            ({"a": {1, 2}}, "set is not JSON serializable"),
            (b"bytes", "bytes is not JSON serializable"),
            (object(), "object is not JSON serializable"),
        ],
    )
    def test_that_jsonb_cannot_hold_are_refused_with_the_reason(self, value: Any, why: str) -> None:
        with pytest.raises(InvalidJson, match=why) as refused:
            _encoded(value)
        assert refused.value.message.startswith("The payload cannot be stored: ")

    def test_that_are_whole_numbers_may_have_4096_bits_and_no_more(self) -> None:
        assert _encoded(2**4096 - 1) == str(2**4096 - 1)
        assert _encoded([-(2**4096) + 1]) == f"[{-(2**4096) + 1}]"
        for value in (2**4096, -(2**4096), 10**100_000):
            with pytest.raises(InvalidJson, match="4096 bits"):
                _encoded({"n": [value]})


class TestDepth:
    @pytest.mark.parametrize("kind", [list, dict])
    def test_may_be_a_hundred_levels_and_no_more(self, kind: type) -> None:
        assert _encoded(_nested(100, kind=kind))
        for levels in (101, 500, 20_000):
            with pytest.raises(InvalidJson, match="100 levels"):
                _encoded(_nested(levels, kind=kind))

    @looped("kind", [list, dict])
    @looped("innermost", [1, "text", None, [], {}], ids=repr)
    def test_counts_arrays_and_objects_whatever_the_innermost_holds(self, kind: type, innermost: Any) -> None:
        own = isinstance(innermost, list | dict)
        assert _encoded(_nested(100 - own, kind=kind, around=innermost))
        with pytest.raises(InvalidJson, match="more than 100 levels of arrays and objects"):
            _encoded(_nested(101 - own, kind=kind, around=innermost))

    def test_of_a_value_that_holds_itself_is_refused(self) -> None:
        value: list[Any] = []
        value.append(value)
        with pytest.raises(InvalidJson, match="100 levels"):
            _encoded(value)

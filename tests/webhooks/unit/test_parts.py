"""Reading a body: what counts as left out, what is refused with the name of the field, and what each kind takes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.looped import looped
from webhooks.domain.parts import (
    ABSENT,
    AMOUNT,
    COUNT,
    FLAG,
    ID,
    LINK,
    MEASURE,
    MOMENT,
    NUMBER,
    OBJECTS,
    REFERENCE,
    TEXT,
    TEXTS,
    Kind,
    Part,
    each,
    fields,
)
from webhooks.errors import BadPayload


def read_of(body: Any, path: str, kind: Kind[Any]) -> tuple[Any, list[str]]:
    """What is found at a path, and what could not be read."""
    unread: list[str] = []
    return Part(body, unread=unread).look(path, kind), unread


def refusal(body: Any, path: str, kind: Kind[Any]) -> tuple[str, str]:
    with pytest.raises(BadPayload) as refused:
        Part(body, unread=[]).need(path, kind)
    return refused.value.field, refused.value.reason


class TestAField:
    @looped(
        ("body", "found", "unread"),
        [
            ({"a": {"b": "text"}}, "text", []),
            ({"a": {}}, ABSENT, []),
            ({}, ABSENT, []),
            ({"a": {"b": None}}, "", []),
            ({"a": None}, "", []),
            ({"a": {"b": 7}}, ABSENT, ["a.b"]),
            ({"a": 7}, ABSENT, ["a"]),
            ([], ABSENT, ["body"]),
        ],
    )
    def test_that_cannot_be_read_counts_as_left_out_and_is_named(
        self, body: Any, found: Any, unread: list[str]
    ) -> None:
        assert read_of(body, "a.b", TEXT) == (found, unread)

    def test_is_none_where_nothing_is_or_null(self) -> None:
        part = Part({"at": None, "n": "x"}, unread=[])
        assert (part.moment("at"), part.number("n"), part.number("m"), part.text("t")) == (None, None, None, "")

    def test_of_a_part_that_is_none_is_left_out(self) -> None:
        for body in ({}, {"a": None}, {"a": "text"}):
            part = Part(body, unread=[]).part("a")
            assert (bool(part), part.look("b", TEXT), part.first("c").text("d")) == (False, ABSENT, "")

    def test_within_a_part_is_named_by_its_whole_path(self) -> None:
        unread: list[str] = []
        body = Part({"a": {"b": [{"c": 7}]}}, unread=unread)
        body.part("a").first("b").text("c")
        body.need_part("a").need_parts("b")[0].text("c")
        assert unread == ["a.b.0.c", "a.b.0.c"]


class TestADocument:
    FIELDS = fields(text="title author=user.login", number="n", each_text="labels=list.labels.name")

    def test_has_what_the_body_says(self) -> None:
        body = {"title": "t", "user": {"login": "ada"}, "n": 7, "list": {"labels": [{"name": "a"}, {"name": "b"}]}}
        found = Part(body, unread=[]).document(self.FIELDS)
        assert found == {"title": "t", "author": "ada", "n": 7, "labels": ["a", "b"]}

    def test_tells_nothing_apart_from_null(self) -> None:
        body = {"title": None, "user": None, "n": None, "list": None}
        assert Part(body, unread=[]).document(self.FIELDS) == {"title": "", "author": "", "n": None, "labels": []}
        assert Part({}, unread=[]).document(self.FIELDS) == {}

    def test_leaves_out_a_list_of_which_one_item_cannot_be_read(self) -> None:
        """Nobody knows what the whole of it would be."""
        unread: list[str] = []
        for item in (7, {}, {"name": None}, {"name": 7}):
            body = {"list": {"labels": [{"name": "a"}, item]}}
            assert Part(body, unread=unread).document(self.FIELDS) == {}
        assert unread == ["list.labels"] * 4


class TestWhatIsNeeded:
    @looped(
        ("body", "field", "reason"),
        [
            ({}, "a", "field required"),
            ({"a": {}}, "a.b", "field required"),
            ({"a": None}, "a", "should be an object"),
            ({"a": []}, "a", "should be an object"),
            ([], "body", "should be an object"),
            ({"a": {"b": True}}, "a.b", "should be a whole number"),
            ({"a": {"b": None}}, "a.b", "should be a whole number"),
            ({"a": {"b": 2**63}}, "a.b", "should be a whole number"),
            ({"a": {"b": -1}}, "a.b", "should not be negative"),
        ],
    )
    def test_is_refused_with_the_first_field_that_is_wrong(self, body: Any, field: str, reason: str) -> None:
        assert refusal(body, "a.b", NUMBER) == (field, reason)


class TestAMoment:
    @looped(
        "value",
        ["2019-02-15T19:11:18.321-0800", "2019-02-16T03:11:18.321Z", "2019-02-16T03:11:18.321+00:00", 1550286678321,
         1550286678.321],
    )  # fmt: skip
    def test_is_read_in_every_zone_and_unit(self, value: Any) -> None:
        assert MOMENT.read(value) == datetime(2019, 2, 16, 3, 11, 18, 321000, tzinfo=UTC)

    @looped(
        "value",
        ["", "now", "2019-02-15T19:11:18", "2019-02-15", "2019-13-15T19:11:18Z", "0001-01-01T00:00:00+14:00",
         "9" * 1000, "1", None, True, [], 10**30, -(10**30)],
    )  # fmt: skip
    def test_that_is_none_is_refused(self, value: Any) -> None:
        with pytest.raises(ValueError, match="should be a moment"):
            MOMENT.read(value)


@looped(
    ("kind", "value", "found"),
    [
        (TEXT, "x" * 255, "x" * 255), (TEXT, "x" * 1000, "x" * 254 + "…"), (NUMBER, "18", 18), (NUMBER, 0, 0),
        (AMOUNT, -5, -5), (MEASURE, 0.5, 0.5), (FLAG, False, False), (ID, "a", "a"), (REFERENCE, "cus_1", "cus_1"),
        (REFERENCE, {"id": "cus_1", "name": "Ada"}, "cus_1"), (TEXTS, ["a"], ["a"]), (COUNT, [7, {}], 2),
        (LINK, "https://a.example/b", "https://a.example/b"), (LINK, "javascript:alert(1)", ""),
        (LINK, "https://a.example/" + "b" * 1000, ""), (OBJECTS, [{}], [{}]), (each("a"), [{"a": "b"}], ["b"]),
    ],
)  # fmt: skip
def test_a_kind_takes_what_it_can(kind: Kind[Any], value: Any, found: Any) -> None:
    assert kind.read(value) == found


@looped(
    ("kind", "values"),
    [
        (TEXT, [7, None, [], True]), (ID, ["", "x" * 201, 7, None]), (REFERENCE, [{}, {"id": 7}, 7]),
        (NUMBER, ["x", "", "1" * 20, "-1", "٣", 0.5, None, {}]), (AMOUNT, [-(2**63), 0.5, True, "7"]),
        (MEASURE, ["7", True, None, float("nan"), float("inf")]), (FLAG, [0, 1, "true", None]),
        (TEXTS, ["a", ["a", 7], {}]), (COUNT, [{}, 7]), (LINK, [7, {}]), (OBJECTS, [{}, [7], [{}, None]]),
    ],
)  # fmt: skip
def test_a_kind_refuses_what_it_cannot(kind: Kind[Any], values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ValueError, match="should"):
            kind.read(value)

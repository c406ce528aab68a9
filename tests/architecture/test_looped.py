"""A test of many entries (`tests.looped`) fails for each that is wrong, and says which."""

import inspect

import pytest
from django.contrib.auth.models import Group

from tests.looped import looped


def test_each_entry_is_tried_and_those_that_fail_are_named() -> None:
    tried = list[tuple[int, str]]()

    @looped("number, word", [(1, "one"), (2, "two"), pytest.param(3, "three", id="the last")])
    def even(number: int, word: str) -> None:
        tried.append((number, word))
        assert number % 2 == 0, word

    with pytest.raises(ExceptionGroup, match="2 of 3 entries") as caught:
        even()
    assert tried == [(1, "one"), (2, "two"), (3, "three")]
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["with entry 0, 1, 'one'"],
        ["with entry 2, the last"],
    ]


def test_one_that_fails_alone_is_raised_as_it_is() -> None:
    @looped("word", ["one", "two"], ids=str.upper)
    def short(word: str) -> None:
        assert word != "two"

    with pytest.raises(AssertionError) as caught:
        short()
    assert caught.value.__notes__ == ["with entry 1, TWO"]


def test_fixtures_are_asked_for_and_loops_lie_in_each_other() -> None:
    seen = list[tuple[int, int, str]]()

    @looped("row", [1, 2])
    @looped("column", [3, 4])
    def table(row: int, tmp: str, column: int) -> None:
        seen.append((row, column, tmp))

    assert list(inspect.signature(table).parameters) == ["tmp"]
    table(tmp="here")
    assert seen == [(1, 3, "here"), (1, 4, "here"), (2, 3, "here"), (2, 4, "here")]


def test_nothing_to_ask_is_no_test() -> None:
    with pytest.raises(AssertionError, match="nothing would be asked"):
        looped("path", [])


@pytest.mark.django_db
def test_what_one_entry_wrote_is_not_there_for_the_next() -> None:
    @looped("name", ["a", "b"], rolled_back=True)
    def made(name: str) -> None:
        Group.objects.create(name=name)
        assert Group.objects.count() == 1

    made()
    assert not Group.objects.exists()

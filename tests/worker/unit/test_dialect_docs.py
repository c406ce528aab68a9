"""docs/front-door.md says of each field what the worker does with it."""

from typing import Any

import pytest

from jobfarm_worker import Failed
from jobfarm_worker.handlers import messages_request as messages
from jobfarm_worker.handlers import responses_request as responses
from scripts import dialect_docs
from tests.looped import looped


def test_is_what_the_generator_writes() -> None:
    assert dialect_docs.PAGE.read_text() == dialect_docs.page(), "make docs"


def test_each_field_is_in_one_place() -> None:
    of_messages = [*messages.PASSED, *messages.MAPPED, *messages.LEFT_OUT]
    of_responses = [*responses.PASSED, *responses.FARMS, *responses.MAPPED, *responses.LEFT_OUT, *responses.REFUSED]
    for names in (of_messages, of_responses):
        assert len(names) == len({*names})


@looped("name", responses.PASSED)
def test_a_field_of_a_response_that_is_passed_is_in_its_chat(name: str) -> None:
    assert responses.chat_request({"input": "x", name: "value"})[name] == "value"


@looped("name", messages.PASSED)
def test_a_field_of_a_message_that_is_passed_is_in_its_chat(name: str) -> None:
    assert messages.chat_request({"messages": [], name: "value"})[0][name] == "value"


@looped("name", [*responses.LEFT_OUT, *responses.FARMS])
def test_a_field_of_a_response_that_is_left_out_changes_nothing(name: str) -> None:
    body: dict[str, Any] = {"input": "x", name: {"some": "value"}}
    assert responses.chat_request(body) == responses.chat_request({"input": "x"})
    assert bool(responses.left_out(body)) is (name in responses.LEFT_OUT)


@looped("name", responses.REFUSED)
def test_a_field_of_a_response_that_is_refused_is_named(name: str) -> None:
    with pytest.raises(Failed, match=f"{name}: "):
        responses.chat_request({"input": "x", name: {"id": "p"}})


@looped("kind", responses.ITEMS)
def test_an_item_that_the_page_names_is_known(kind: str) -> None:
    with pytest.raises(Failed) as caught:
        responses.chat_request({"input": [{"type": kind}, {"type": "of_tomorrow"}]})
    assert f"has no place for '{kind}'" not in str(caught.value)

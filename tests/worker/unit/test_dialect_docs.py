"""docs/front-door.md says of each field what the worker does with it."""

from typing import Any

import pytest

from jobfarm_worker import Failed
from jobfarm_worker.handlers import messages_request as messages, responses_request as responses
from tests.looped import looped
from tests.worker.unit.dialects import named

RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"


@pytest.mark.parametrize(
    ("path", "what", "names"),
    [
        (RESPONSES, "passed", responses.PASSED),
        (RESPONSES, "the farm's", responses.FARMS),
        (RESPONSES, "mapped: ", responses.MAPPED),
        (RESPONSES, "refused: ", responses.REFUSED),
        (MESSAGES, "passed", messages.PASSED),
        (MESSAGES, "mapped: ", messages.MAPPED),
    ],
)
def test_the_page_names_the_fields_that_the_worker_knows(path: str, what: str, names: Any) -> None:
    assert named(path, what=what) == [*names]


@pytest.mark.parametrize("path", [RESPONSES, MESSAGES])
def test_each_field_is_in_one_place(path: str) -> None:
    assert len(named(path)) == len({*named(path)}) > 10


def test_the_page_says_what_becomes_of_each_item_and_block() -> None:
    assert set(named(RESPONSES, of="input")) == responses.ITEMS.keys()
    assert set(named(MESSAGES, of="content")) == {*messages.PARTS, *messages.ELSEWHERE}


@looped("name", responses.PASSED)
def test_a_field_of_a_response_that_is_passed_is_in_its_chat(name: str) -> None:
    assert responses.chat_request({"input": "x", name: "value"})[name] == "value"


@looped("name", messages.PASSED)
def test_a_field_of_a_message_that_is_passed_is_in_its_chat(name: str) -> None:
    assert messages.chat_request({"messages": [], name: "value"})[0][name] == "value"


@looped("name", [*named(RESPONSES, what="left out"), *responses.FARMS])
def test_a_field_of_a_response_that_is_left_out_changes_nothing(name: str) -> None:
    body: dict[str, Any] = {"input": "x", name: {"some": "value"}}
    assert responses.chat_request(body) == responses.chat_request({"input": "x"})
    assert bool(responses.left_out(body)) is (name not in responses.FARMS)


@looped("name", responses.REFUSED)
def test_a_field_of_a_response_that_is_refused_is_named(name: str) -> None:
    with pytest.raises(Failed, match=f"{name}: "):
        responses.chat_request({"input": "x", name: {"id": "p"}})

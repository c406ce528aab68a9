"""Topics in messages: all of them, once, in the fewest messages that fit."""

import json

import pytest
from hypothesis import given, strategies as st

from live import RECONNECTED, errors
from live.operations import checked_topic, messages_of, topics_in
from tests.looped import looped


class TestMessages:
    @given(st.lists(st.text(min_size=1, max_size=150), max_size=300))
    def test_carry_every_topic_in_order_and_fit_into_a_notify(self, names: list[str]) -> None:
        messages = list(messages_of(names, origin="0" * 36))
        assert [name for message in messages for name in message["topics"]] == names
        assert all(len(json.dumps(message)) < 7900 for message in messages)

    def test_are_as_few_as_they_can_be(self) -> None:
        assert len(list(messages_of([f"job:{n}" for n in range(100)]))) == 1

    def test_are_none_for_no_topics(self) -> None:
        assert list(messages_of([])) == []

    @given(st.lists(st.text()))
    def test_are_read_as_they_were_written(self, names: list[str]) -> None:
        read = [topics_in(message, own="me") for message in messages_of(names)]
        assert frozenset().union(*read) == frozenset(names)


class TestRead:
    def test_says_that_others_were_lost(self) -> None:
        assert topics_in({"type": "live.reconnected"}, own="me") == {RECONNECTED}

    @looped(
        "message",
        [{}, {"type": "other"}, {"type": "live.touched"}, {"type": "live.touched", "topics": 7}, {"type": []}],
    )
    def test_gives_nothing_for_what_is_foreign(self, message: dict[str, object]) -> None:
        assert topics_in(message, own="me") == frozenset()

    def test_gives_nothing_for_what_its_own_hub_sent(self) -> None:
        [message] = messages_of(["job:1"], origin="me")
        assert topics_in(message, own="me") == frozenset()
        assert topics_in(message, own="another") == {"job:1"}

    def test_leaves_out_what_is_no_text(self) -> None:
        assert topics_in({"type": "live.touched", "topics": ["job:1", 7, None]}, own="me") == {"job:1"}


class TestChecked:
    @looped("topic", ["job:7", "jobs", "queue:größer", "a*b", "x" * 990])
    def test_lets_a_topic_through(self, topic: str) -> None:
        assert checked_topic(topic) == topic

    @looped("topic", ["", "*", "work:*", "x" * 1000, "ü" * 200])
    def test_refuses_what_is_none(self, topic: str) -> None:
        with pytest.raises(errors.BadTopic):
            checked_topic(topic)

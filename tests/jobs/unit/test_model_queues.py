"""Queues of models: one for each, and which of them are a worker's."""

from hypothesis import given, strategies as some

from jobs.domain.kinds import NAME, queue_of_model, with_models
from tests.looped import looped


def test_a_name_that_a_queue_may_have_stays_readable() -> None:
    assert queue_of_model("llama3.2") == "openai.llama3.2"


@looped("model", ["Org/Llama-3:8B", "llama3.2:latest", "é", " ", "x" * 200])
def test_any_other_becomes_one(model: str) -> None:
    assert NAME.fullmatch(queue_of_model(model))


@given(some.text(min_size=1, max_size=200), some.text(min_size=1, max_size=200))
def test_no_two_models_share_a_queue(one: str, other: str) -> None:
    assert (queue_of_model(one) == queue_of_model(other)) == (one == other)


def test_a_model_called_like_the_queue_of_another_has_its_own() -> None:
    taken = queue_of_model("Org/Llama").removeprefix("openai.")
    assert queue_of_model(taken) != queue_of_model("Org/Llama")


class TestHomeQueues:
    def test_follow_what_is_announced(self) -> None:
        first = with_models(["chat", "openai"], ["a", "b"])
        assert first == ["chat", "openai", "openai.a", "openai.b"]
        assert with_models(first, ["b", "c", "b"]) == ["chat", "openai", "openai.b", "openai.c"]
        assert with_models(first, []) == ["chat", "openai"]

    def test_of_a_key_that_names_models_itself_stay(self) -> None:
        assert with_models(["chat", "openai.a"], ["a", "b"]) == ["chat", "openai.a"]

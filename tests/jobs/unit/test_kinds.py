"""Kinds: their defaults, and what cannot be one."""

from typing import Any

import pytest

from jobs import kinds
from jobs.domain.kinds import Kind
from tests.looped import looped


class TestAKind:
    def test_waits_in_the_queue_of_its_name_unless_told_otherwise(self) -> None:
        assert Kind(name="image").queue == "image"
        assert Kind(name="image", queue="gpu").queue == "gpu"

    @looped(
        "wrong",
        [
            {"name": ""}, {"name": "A"}, {"name": "-a"}, {"name": "a b"}, {"name": "a\n"},
            {"name": "a" * 101}, {"name": "\u00e9"}, {"queue": "a,b"}, {"queue": "*"},
            {"max_attempts": 0}, {"max_attempts": 1001}, {"priority": 101}, {"priority": -101},
            {"timeout_s": 0}, {"timeout_s": -1}, {"timeout_s": float("nan")}, {"timeout_s": float("inf")},
            {"expires_s": 0}, {"expires_s": 6 * 366 * 86400},
            {"concurrency": 1, "concurrency_key": "{account"},
            {"concurrency": 1, "concurrency_key": "{a b}"},
        ],
        ids=str,
    )  # fmt: skip
    def test_that_makes_no_sense_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="got"):
            Kind(**{"name": "work", **wrong})


class TestDeclaring:
    @pytest.fixture(autouse=True)
    def _of_this_test(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kinds, "DECLARED", dict(kinds.DECLARED))

    def test_twice_the_same_is_one(self) -> None:
        assert kinds.declare(Kind(name="twice")) == kinds.declare(Kind(name="twice"))

    def test_twice_with_other_defaults_is_refused(self) -> None:
        kinds.declare(Kind(name="twice"))
        with pytest.raises(ValueError, match="'twice' is declared twice"):
            kinds.declare(Kind(name="twice", max_attempts=5))

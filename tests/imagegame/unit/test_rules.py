"""Prompts, points, health, steps, made-up titles."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from examples.imagegame.domain import health, painting, prompts, scores
from examples.imagegame.domain.health import Health, Painted
from examples.imagegame.domain.painting import Step
from examples.imagegame.domain.scores import Score, Title
from examples.imagegame.errors import PromptRefused
from tests.looped import looped

BLOCKED = ["blood", "secret base", " ", "!?"]


class TestPrompts:
    @looped(
        ("text", "kept"),
        [
            ("a fox", "a fox"),
            ("  a \n\t fox  ", "a fox"),
            ("cafe\u0301", "café"),
            ("x" * 100, "x" * 100),
            ("e\u0301" * 100, "é" * 100),
            ("bloodhound", "bloodhound"),
            ("a base, secret", "a base, secret"),
            ("狐 🦊", "狐 🦊"),
        ],
    )
    def test_are_tidied(self, text: str, kept: str) -> None:
        assert prompts.checked(text, blocked=BLOCKED) == kept

    @looped(
        ("text", "why"),
        [
            ("", "A prompt cannot be empty."),
            (" \n\t ", "A prompt cannot be empty."),
            ("x" * 101, "A prompt has at most 100 characters; this one has 101."),
            ("a\x00b", "A prompt is made of words that can be printed."),
            ("a\x1b[31mb", "A prompt is made of words that can be printed."),
            ("a\u202eb", "A prompt is made of words that can be printed."),
            ("a\ud800b", "A prompt is made of words that can be printed."),
            ("?!", "A prompt is made of words that can be printed."),
            ("BLÓOD!", "Your prompt was flagged: “blood” is not wanted here."),
            ("ｂｌｏｏｄ", "Your prompt was flagged: “blood” is not wanted here."),
            ("my (secret... base)", "Your prompt was flagged: “secret base” is not wanted here."),
        ],
    )
    def test_are_refused_with_a_reason(self, text: str, why: str) -> None:
        with pytest.raises(PromptRefused) as refusal:
            prompts.checked(text, blocked=BLOCKED)
        assert refusal.value.message == why

    @given(st.text(max_size=150))
    def test_that_are_taken_stay_as_they_are(self, text: str) -> None:
        try:
            kept = prompts.checked(text, blocked=BLOCKED)
        except PromptRefused:
            return
        assert prompts.checked(kept, blocked=BLOCKED) == kept
        assert 0 < len(kept) <= prompts.LONGEST

    @looped(
        ("one", "other", "alike"),
        [
            ("A fox!", "a  FOX", True),
            ("café", "CAFE", True),
            ("a fox who delivers the mail", "a fox who delivers teh mail", True),
            ("a fox", "a box of foxes", False),
            ("the moon as a lemon", "the sun as an orange", False),
        ],
    )
    def test_are_alike_but_for_trifles(self, one: str, other: str, alike: bool) -> None:
        assert prompts.are_alike(one, other) is prompts.are_alike(other, one) is alike


class TestPoints:
    def test_are_for_being_known_for_misleading_and_for_knowing(self) -> None:
        titles = [
            Title(author=1, is_true=True, chosen_by=(2, 3)),
            Title(author=2, is_true=False, chosen_by=(4,)),
            Title(author=3, is_true=False),
            Title(author=None, is_true=False, chosen_by=(5,)),
        ]
        assert scores.of_picture(titles) == Counter({1: 2000, 2: 200 + 500, 3: 200})

    def test_of_a_picture_nobody_knew_are_none(self) -> None:
        assert scores.of_picture([Title(author=1, is_true=True)]) == Counter()

    def test_make_a_table_in_which_as_many_share_a_place(self) -> None:
        assert scores.table([1, 2, 3, 4], {3: 700, 1: 200, 4: 200}) == [
            Score(rank=1, player=3, points=700),
            Score(rank=2, player=1, points=200),
            Score(rank=2, player=4, points=200),
            Score(rank=4, player=2, points=0),
        ]

    @given(
        st.lists(
            st.builds(
                Title,
                author=st.none() | st.integers(1, 8),
                is_true=st.booleans(),
                chosen_by=st.lists(st.integers(1, 8), unique=True, max_size=8).map(tuple),
            ),
            max_size=8,
        )
    )
    def test_add_up_to_what_the_guesses_are_worth(self, titles: list[Title]) -> None:
        worth = 0
        for title in titles:
            each = 0 if title.author is None else 1000 if title.is_true else 500
            worth += len(title.chosen_by) * (each + (200 if title.is_true else 0))
        assert sum(scores.of_picture(titles).values()) == worth


class TestHealth:
    def test_of_nothing_is_neither_good_nor_bad(self) -> None:
        assert health.of([]) == Health(pictures=0, succeeded=0, mean_s=None, share=None, mood="")

    @looped(("succeeded", "mood"), [(5, "good"), (4, "late"), (3, "late"), (2, "bad"), (0, "bad")])
    def test_is_good_above_four_fifths_and_fair_above_half(self, succeeded: int, mood: str) -> None:
        painted = [Painted(succeeded=n < succeeded, took_s=n) for n in range(5)]
        assert health.of(painted) == Health(
            pictures=5, succeeded=succeeded, mean_s=2.0, share=succeeded / 5, mood=mood  # type: ignore[arg-type]
        )  # fmt: skip

    @given(st.lists(st.builds(Painted, succeeded=st.booleans(), took_s=st.floats(0, 3600)), min_size=1, max_size=5))
    def test_lies_within_what_it_is_made_of(self, painted: list[Painted]) -> None:
        rating = health.of(painted)
        times = [one.took_s for one in painted]
        assert rating.mean_s is not None and rating.share is not None  # noqa: PT018
        assert min(times) - 1e-9 <= rating.mean_s <= max(times) + 1e-9
        assert rating.share == rating.succeeded / rating.pictures
        assert 0 <= rating.share <= 1


class TestSteps:
    @looped(
        ("is_claimed", "progress", "step"),
        [
            (False, None, Step.STARTING),
            (False, 0.7, Step.STARTING),  # of the attempt before
            (True, None, Step.CHECKING),
            (True, 0.0, Step.GENERATING),
            (True, 0.89, Step.GENERATING),
            (True, 0.9, Step.SAVING),
            (True, 1.0, Step.SAVING),
        ],
    )
    def test_follow_from_what_the_worker_says(self, is_claimed: bool, progress: float | None, step: Step) -> None:
        assert painting.step(is_claimed=is_claimed, progress=progress) is step

    def test_lie_behind_one_after_the_other(self) -> None:
        assert [painting.has_passed(step, now=Step.GENERATING) for step in Step] == [True, True, False, False]


class TestMadeUpTitles:
    @settings(deadline=None)
    @given(seed=st.integers(), count=st.integers(0, 4))
    def test_are_new_and_good_prompts(self, seed: int, count: int) -> None:
        known = ["A paper dragon, in a field of glass", "two moons learning to swim"]
        titles = prompts.made_up(count, rng=random.Random(seed), unlike=known)
        assert len(titles) == count
        together = known + titles
        for number, title in enumerate(together):
            assert prompts.checked(title, blocked=[]) == title
            assert not any(prompts.are_alike(title, other) for other in together[:number])

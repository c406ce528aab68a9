"""The table of moves, and the function that chooses among them."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from examples.imagegame.domain import stages
from examples.imagegame.domain.stages import Facts, Stage, following
from tests.looped import looped

FACTS = st.builds(
    Facts,
    stage=st.sampled_from(Stage),
    players=st.integers(2, stages.MOST_PLAYERS),
    pictures=st.integers(0, 8),
    remaining=st.integers(0, 7),
    titles=st.integers(0, 8),
    guesses=st.integers(0, 8),
)


class TestTheTable:
    def test_is_what_the_game_is(self) -> None:
        assert [(move.source, move.target) for move in stages.MOVES] == [
            (None, Stage.LOBBY),
            (Stage.LOBBY, Stage.PAINTING),
            (Stage.LOBBY, Stage.ABANDONED),
            (Stage.PAINTING, Stage.NAMING),
            (Stage.PAINTING, Stage.ABANDONED),
            (Stage.NAMING, Stage.GUESSING),
            (Stage.GUESSING, Stage.REVEAL),
            (Stage.REVEAL, Stage.NAMING),
            (Stage.REVEAL, Stage.OVER),
        ]

    def test_leads_out_of_every_live_stage_and_of_no_other(self) -> None:
        assert {move.source for move in stages.MOVES} == {None, *stages.LIVE}

    @looped("source", [None, *Stage])
    @looped("target", Stage)
    def test_is_asked_by_may_move(self, source: Stage | None, target: Stage) -> None:
        listed = any((move.source, move.target) == (source, target) for move in stages.MOVES)
        assert stages.may_move(source, target) is listed


class TestFollowing:
    @given(facts=FACTS, is_pushed=st.booleans())
    def test_keeps_to_the_table(self, facts: Facts, is_pushed: bool) -> None:
        target = following(facts, is_pushed=is_pushed)
        assert target is None or stages.may_move(facts.stage, target)

    @given(facts=FACTS)
    def test_leaves_every_live_stage_when_pushed(self, facts: Facts) -> None:
        assert (following(facts, is_pushed=True) is None) == (facts.stage in stages.ENDED)

    @pytest.mark.parametrize(
        ("facts", "waits_for", "target"),
        [
            (Facts(stage=Stage.PAINTING, players=3, pictures=3), "pictures", Stage.NAMING),
            (Facts(stage=Stage.NAMING, players=3, pictures=3, titles=2), "titles", Stage.GUESSING),
            (Facts(stage=Stage.GUESSING, players=3, pictures=3, guesses=2), "guesses", Stage.REVEAL),
        ],
    )
    def test_waits_for_everybody_who_is_asked(self, facts: Facts, waits_for: str, target: Stage) -> None:
        missing_one = replace(facts, **{waits_for: getattr(facts, waits_for) - 1})
        assert following(missing_one, is_pushed=False) is None
        assert following(facts, is_pushed=False) is target

    @looped(
        ("facts", "target"),
        [
            (Facts(stage=Stage.LOBBY, players=8), Stage.ABANDONED),
            (Facts(stage=Stage.PAINTING, players=3, pictures=0), Stage.ABANDONED),
            (Facts(stage=Stage.PAINTING, players=3, pictures=1), Stage.NAMING),
            (Facts(stage=Stage.REVEAL, players=3, pictures=3, remaining=1), Stage.NAMING),
            (Facts(stage=Stage.REVEAL, players=3, pictures=3, remaining=0), Stage.OVER),
        ],
    )
    def test_goes_where_a_push_leads(self, facts: Facts, target: Stage) -> None:
        assert following(facts, is_pushed=True) is target

    @pytest.mark.parametrize("stage", [Stage.LOBBY, Stage.REVEAL])
    def test_stays_where_only_a_push_helps(self, stage: Stage) -> None:
        assert following(Facts(stage=stage, players=8, pictures=8, remaining=3), is_pushed=False) is None

"""The table of moves, and the page that is drawn from it."""

from pathlib import Path

from core.refusal import CancelVerdict
from jobs.domain import states
from jobs.domain.states import ENDED, LIVE, MOVES, Status, may_move
from tests.looped import looped

PAGE = Path(__file__).resolve().parents[3] / "docs" / "states.md"
REGENERATE = (
    "docs/states.md is not what MOVES says. Draw it again: "
    'python -c "from jobs.domain import states; print(states.as_markdown(), end=str())" > docs/states.md'
)


class TestTheTable:
    def test_has_every_state_as_live_or_ended(self) -> None:
        assert frozenset(Status) == LIVE | ENDED
        assert not LIVE & ENDED

    def test_has_no_way_out_of_an_end(self) -> None:
        assert not [move for move in MOVES if move.source in ENDED]

    def test_reaches_every_state_from_nothing(self) -> None:
        reached: set[Status | None] = {None}
        while new := {move.target for move in MOVES if move.source in reached} - reached:
            reached |= new
        assert reached == {None, *Status}

    def test_names_each_move_once(self) -> None:
        assert len({(move.source, move.target) for move in MOVES}) == len(MOVES)

    def test_is_what_may_move_asks(self) -> None:
        table = {(move.source, move.target) for move in MOVES}
        for source in [None, *Status]:
            for target in Status:
                assert may_move(source, target) is ((source, target) in table)


class TestThePage:
    def test_is_drawn_from_the_table(self) -> None:
        assert PAGE.read_text(encoding="utf-8") == states.as_markdown(), REGENERATE

    def test_shows_every_move_in_the_diagram(self) -> None:
        page = states.as_markdown()
        for move in MOVES:
            assert f"{move.source or '[*]'} --> {move.target}: {move.when}" in page


class TestACancelsVerdict:
    @looped(
        ("status", "confirmed_fence", "verdict"),
        [
            (Status.PENDING, 0, CancelVerdict.BEFORE_START),
            (Status.PENDING, 1, CancelVerdict.BEFORE_RETRY),
            (Status.IN_PROGRESS, 1, CancelVerdict.WHILE_RUNNING),
            *[(status, 1, CancelVerdict.TOO_LATE) for status in sorted(ENDED)],
            (Status.CANCELED, 0, CancelVerdict.TOO_LATE),
        ],
    )
    def test_says_what_happened(self, status: Status, confirmed_fence: int, verdict: CancelVerdict) -> None:
        assert states.cancel_verdict(status, confirmed_fence=confirmed_fence) is verdict

    def test_says_of_one_that_waits_for_others_that_it_was_suspended(self) -> None:
        verdict = states.cancel_verdict(Status.PENDING, confirmed_fence=1, is_suspended=True)
        assert verdict is CancelVerdict.WHILE_SUSPENDED

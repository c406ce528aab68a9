"""The table of moves, and the page that is drawn from it."""

from pathlib import Path

from core.refusal import CancelVerdict
from jobs.domain import states
from jobs.domain.states import ENDED, LIVE, MOVES, Status
from tests.looped import looped

PAGE = Path(__file__).resolve().parents[3] / "docs" / "states.md"
REGENERATE = (
    "docs/states.md is not what MOVES says. Draw it again: "
    'python -c "from tests.jobs.unit import test_states; print(test_states.as_markdown(), end=str())" > docs/states.md'
)


def as_markdown() -> str:
    """docs/states.md: the moves as a Mermaid diagram, in the order of MOVES."""
    diagram = [f"    {move.source or '[*]'} --> {move.target}: {move.when}" for move in MOVES]
    diagram += [f"    {status} --> [*]" for status in Status if status in ENDED]
    return _PAGE.format(diagram="\n".join(diagram))


_PAGE = """\
# The states of a job

Drawn from `MOVES` in `jobs/domain/states.py`; a test compares the two and says how to draw this page again.
Constraints in `jobs/models/work.py` ask what each state must hold; an ended job is never changed again.

```mermaid
stateDiagram-v2
{diagram}
```

Trying an ended job again by hand makes a new job that points at the old one (`retry_of`).
"""


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


class TestThePage:
    def test_is_drawn_from_the_table(self) -> None:
        assert PAGE.read_text(encoding="utf-8") == as_markdown(), REGENERATE

    def test_shows_every_move_in_the_diagram(self) -> None:
        page = as_markdown()
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

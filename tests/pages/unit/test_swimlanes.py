"""Where runs are drawn on a lane."""

from hypothesis import given, strategies as st

from jobs.domain.timelines import MOST_TRACKS, SHORTEST, WIDTH, Run, lane


def _run(began_s: float, ended_s: float | None, *, job: int = 1) -> Run:
    return Run(job_id=job, kind="chat", outcome="success", began_s=began_s, ended_s=ended_s)


def test_a_run_is_as_long_as_its_share_of_the_time() -> None:
    drawn = lane(1, "w", [_run(100, 150)], begin_s=0, end_s=200)
    [bar] = drawn.bars
    assert (bar.x, bar.width, bar.took_s) == (500, 250, 50)


def test_one_that_runs_reaches_to_the_end_and_one_that_began_before_from_the_beginning() -> None:
    drawn = lane(1, "w", [_run(-100, None)], begin_s=0, end_s=200)
    [bar] = drawn.bars
    assert (bar.x, bar.width, bar.took_s) == (0, WIDTH, 300)


def test_those_that_overlap_lie_below_each_other_and_a_free_track_is_used_again() -> None:
    drawn = lane(1, "w", [_run(0, 10, job=1), _run(5, 20, job=2), _run(12, 30, job=3)], begin_s=0, end_s=100)
    assert [(bar.run.job_id, bar.track) for bar in drawn.bars] == [(1, 0), (2, 1), (3, 0)]
    assert drawn.tracks == 2


def test_a_lane_counts_the_runs_that_are_hidden_below_others() -> None:
    drawn = lane(1, "w", [_run(0, 10, job=job) for job in range(MOST_TRACKS + 2)], begin_s=0, end_s=100)
    assert (drawn.tracks, drawn.hidden) == (MOST_TRACKS, 2)


_MOMENTS = st.floats(-1000, 1000)


@given(st.lists(st.tuples(_MOMENTS, st.one_of(st.none(), st.floats(0, 500))), max_size=60))
def test_every_run_is_drawn_within_its_lane(spans: list[tuple[float, float | None]]) -> None:
    runs = [
        _run(began, None if length is None else began + length, job=number)
        for number, (began, length) in enumerate(spans)
    ]
    drawn = lane(1, "w", runs, begin_s=-500, end_s=500)
    assert sorted(bar.run.job_id for bar in drawn.bars) == list(range(len(spans)))
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + 0.02 and bar.width >= SHORTEST - 0.01 for bar in drawn.bars)
    assert all(bar.track < MOST_TRACKS and bar.y + bar.height <= drawn.height for bar in drawn.bars)

"""Where attempts are drawn on the lanes of their workers."""

from hypothesis import given
from hypothesis import strategies as st

from jobs.domain.swimlanes import MOST_TRACKS, SHORTEST, WIDTH, Run, lanes


def _run(began_s: float, ended_s: float | None, *, worker: int = 1, job: int = 1, name: str = "w") -> Run:
    return Run(
        job_id=job, kind="chat", worker_id=worker, worker_name=name, outcome="success", began_s=began_s, ended_s=ended_s
    )


def test_a_run_is_as_long_as_its_share_of_the_time() -> None:
    [lane] = lanes([_run(100, 150)], begin_s=0, end_s=200)
    [bar] = lane.bars
    assert (bar.x, bar.width, bar.took_s) == (500, 250, 50)


def test_one_that_runs_reaches_to_the_end_and_one_that_began_before_from_the_beginning() -> None:
    [lane] = lanes([_run(-100, None)], begin_s=0, end_s=200)
    [bar] = lane.bars
    assert (bar.x, bar.width, bar.took_s) == (0, WIDTH, 300)


def test_those_that_overlap_lie_below_each_other_and_a_free_track_is_used_again() -> None:
    [lane] = lanes([_run(0, 10, job=1), _run(5, 20, job=2), _run(12, 30, job=3)], begin_s=0, end_s=100)
    assert [(bar.run.job_id, bar.track) for bar in lane.bars] == [(1, 0), (2, 1), (3, 0)]
    assert lane.tracks == 2


def test_a_lane_counts_the_runs_that_are_hidden_below_others() -> None:
    [lane] = lanes([_run(0, 10, job=job) for job in range(MOST_TRACKS + 2)], begin_s=0, end_s=100)
    assert (lane.tracks, lane.hidden) == (MOST_TRACKS, 2)


def test_lanes_are_in_the_order_of_their_names() -> None:
    runs = [_run(0, 1, worker=1, name="zoe"), _run(0, 1, worker=2, name="ada"), _run(0, 1, worker=3, name="ada")]
    assert [lane.worker_id for lane in lanes(runs, begin_s=0, end_s=1)] == [2, 3, 1]


_MOMENTS = st.floats(-1000, 1000)


@given(st.lists(st.tuples(_MOMENTS, st.one_of(st.none(), st.floats(0, 500)), st.integers(1, 3)), max_size=60))
def test_every_run_is_drawn_within_its_lane(spans: list[tuple[float, float | None, int]]) -> None:
    runs = [
        _run(began, None if length is None else began + length, worker=worker, job=number)
        for number, (began, length, worker) in enumerate(spans)
    ]
    drawn = lanes(runs, begin_s=-500, end_s=500)
    bars = [bar for lane in drawn for bar in lane.bars]
    assert sorted(bar.run.job_id for bar in bars) == list(range(len(spans)))
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + 0.02 and bar.width >= SHORTEST - 0.01 for bar in bars)
    assert all(bar.track < MOST_TRACKS and bar.y + bar.height <= lane.height for lane in drawn for bar in lane.bars)

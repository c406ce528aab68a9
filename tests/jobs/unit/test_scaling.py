"""How many workers a queue wants."""

import math

import pytest
from hypothesis import given, strategies as st

from jobs.domain import rollups
from jobs.domain.scaling import Load, wanted_workers
from tests.looped import looped

LOADS = st.builds(
    Load,
    waiting=st.integers(0, 10_000),
    running=st.integers(0, 10_000),
    arrivals_per_s=st.floats(0, 1000),
    mean_run_s=st.none() | st.floats(0.001, 100_000),
    ceiling=st.none() | st.integers(0, 1000),
    is_paused=st.booleans(),
)
DRAINS_S = st.floats(1, 86_400)


@looped(
    ("wanted", "load"),
    [
        (0, Load(waiting=0, running=0)),
        (0, Load(waiting=0, running=0, arrivals_per_s=5, mean_run_s=10)),
        (1, Load(waiting=1, running=0, mean_run_s=0.01)),
        (1, Load(waiting=0, running=1)),
        (5, Load(waiting=1, running=4, draining=4, mean_run_s=1.0)),
        (4, Load(waiting=9, running=4, draining=4, ceiling=4)),
        (6, Load(waiting=0, running=3, arrivals_per_s=0.5, mean_run_s=12)),  # Little's law
        (20, Load(waiting=120, running=0, mean_run_s=10)),  # 1200 s of work in 60 s
        (26, Load(waiting=120, running=3, arrivals_per_s=0.6, mean_run_s=10)),
        (3, Load(waiting=3, running=0, mean_run_s=600)),  # one each is all that helps
        (7, Load(waiting=5, running=2 + 5, mean_run_s=600)),
        (40, Load(waiting=40, running=0)),  # nobody knows how long they run
        (8, Load(waiting=120, running=0, mean_run_s=10, ceiling=8)),
        (9, Load(waiting=120, running=9, mean_run_s=10, ceiling=8)),  # it was lowered while they ran
        (0, Load(waiting=120, running=0, mean_run_s=10, ceiling=0)),
        (0, Load(waiting=120, running=0, mean_run_s=10, is_paused=True)),
        (2, Load(waiting=120, running=2, mean_run_s=10, is_paused=True)),
    ],
)
def test_wants(wanted: int, load: Load) -> None:
    assert wanted_workers(load, drain_s=60) == wanted


def test_takes_the_time_that_it_is_given_into_account() -> None:
    load = Load(waiting=120, running=0, mean_run_s=10)
    assert [wanted_workers(load, drain_s=drain_s) for drain_s in (10, 30, 600)] == [120, 40, 2]


def test_a_worker_that_runs_several_at_a_time_stands_for_several() -> None:
    load = Load(waiting=120, running=0, mean_run_s=10)
    assert [wanted_workers(load, drain_s=60, jobs_per_worker=n) for n in (1, 8, 100)] == [20, 3, 1]


@given(load=LOADS, drain_s=DRAINS_S, jobs_per_worker=st.integers(1, 100))
def test_is_never_too_few_for_what_runs_nor_more_than_may_run(load: Load, drain_s: float, jobs_per_worker: int) -> None:
    wanted = wanted_workers(load, drain_s=drain_s, jobs_per_worker=jobs_per_worker)
    assert wanted * jobs_per_worker >= load.running
    if load.ceiling is not None:
        assert wanted <= math.ceil(max(load.ceiling, load.running) / jobs_per_worker)
    if load.is_paused or load.waiting + load.running == 0:
        assert wanted == math.ceil(load.running / jobs_per_worker)
    elif load.waiting > 0 and load.ceiling != 0:
        assert wanted >= 1


@given(load=LOADS, more=st.integers(1, 1000), drain_s=DRAINS_S, longer=st.floats(1, 100))
def test_never_falls_when_more_waits_and_never_rises_with_more_time(
    load: Load, more: int, drain_s: float, longer: float
) -> None:
    fuller = Load(
        waiting=load.waiting + more, running=load.running, arrivals_per_s=load.arrivals_per_s,
        mean_run_s=load.mean_run_s, ceiling=load.ceiling, is_paused=load.is_paused,
    )  # fmt: skip
    assert wanted_workers(fuller, drain_s=drain_s) >= wanted_workers(load, drain_s=drain_s)
    assert wanted_workers(load, drain_s=drain_s * longer) <= wanted_workers(load, drain_s=drain_s)


def test_the_mean_of_counted_durations_is_within_a_tenth() -> None:
    durations_s = [0.02, 0.5, 0.5, 3.0, 40.0]
    counts: dict[str, int] = {}
    for each in durations_s:
        key = str(rollups.bucket(each))
        counts[key] = counts.get(key, 0) + 1
    assert rollups.mean_s(counts) == pytest.approx(sum(durations_s) / len(durations_s), rel=0.1)
    assert rollups.mean_s({}) is None

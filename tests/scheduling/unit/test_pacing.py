"""How much work lies ready for the workers of a cluster."""

from scheduling.domain.clusters import AHEAD_S, FIRST_PER_WORKER, MOST_PER_WORKER, Pace


class TestThePace:
    def test_begins_with_a_few_for_each_worker(self) -> None:
        assert Pace(workers=2).room(waiting=0) == 2 * FIRST_PER_WORKER

    def test_follows_how_fast_the_last_ones_were_taken(self) -> None:
        pace = Pace(workers=2)
        pace.begin(now=10.0)
        pace.measure(taken=5, now=10.01)
        assert pace.depth in {500 * AHEAD_S, 500 * AHEAD_S + 1}

    def test_of_slow_ones_leaves_one_for_each_worker(self) -> None:
        pace = Pace(workers=3)
        pace.begin(now=10.0)
        pace.measure(taken=1, now=20.0)
        assert (pace.depth, pace.room(waiting=0), pace.room(waiting=2)) == (3, 3, 0)

    def test_knows_an_upper_bound(self) -> None:
        pace = Pace(workers=2)
        pace.begin(now=0.0)
        pace.measure(taken=1_000_000, now=0.001)
        assert pace.depth == 2 * MOST_PER_WORKER

    def test_doubles_when_workers_found_nothing_although_there_was_more(self) -> None:
        pace = Pace(workers=1)
        pace.measure(taken=0, now=1.0, is_starved=True)
        assert pace.depth == 2 * FIRST_PER_WORKER

    def test_does_not_count_idle_time(self) -> None:
        pace = Pace(workers=2)
        pace.begin(now=0.0)
        pace.measure(taken=1, now=0.002)
        fast = pace.depth
        pace.measure(taken=1, now=60.0)
        assert pace.depth == fast

    def test_leaves_no_room_until_half_is_taken(self) -> None:
        pace = Pace(workers=2)
        assert (pace.room(waiting=5), pace.room(waiting=4)) == (0, 4)

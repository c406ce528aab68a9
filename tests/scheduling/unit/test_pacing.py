"""How much a worker gets at a time."""

from scheduling.cluster.pool import AHEAD_S, FIRST, MOST, Pace


class TestThePace:
    def test_begins_with_a_few(self) -> None:
        assert Pace().size == FIRST

    def test_follows_how_fast_the_last_ones_were_done(self) -> None:
        pace = Pace()
        pace.measure(done=4, seconds=0.01)
        assert pace.size == 400 * AHEAD_S

    def test_of_slow_ones_leaves_one_at_a_time(self) -> None:
        pace = Pace()
        pace.measure(done=1, seconds=10.0)
        assert pace.size == 1

    def test_knows_an_upper_bound(self) -> None:
        pace = Pace()
        pace.measure(done=1_000, seconds=0.001)
        assert pace.size == MOST

    def test_stays_where_nothing_was_done(self) -> None:
        pace = Pace()
        pace.measure(done=0, seconds=60.0)
        assert pace.size == FIRST

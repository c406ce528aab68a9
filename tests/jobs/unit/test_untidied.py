"""When a process that takes jobs tidies their lanes: so often that about a hundred later jobs overtake one at most."""

from jobs.operations.lanes import EVERY_S, FIRST, KEPT, MOST, OVERTAKEN, Untidied

LANE, OTHER = ("work", 1), ("work", 2)
ELSEWHERE = ("gpu", 3)


class TestWhatWasTaken:
    def test_lanes_are_not_tidied_for_the_first_jobs_of_a_queue(self) -> None:
        assert Untidied().took([LANE] * (FIRST - 1), now_s=0) == []

    def test_lanes_are_tidied_once_enough_was_taken_in_one_claim_or_in_many(self) -> None:
        assert Untidied().took([LANE] * FIRST, now_s=0) == [LANE[1]]
        untidied = Untidied()
        assert [untidied.took([LANE], now_s=0) for _ in range(FIRST)] == [*[[]] * (FIRST - 1), [LANE[1]]]

    def test_jobs_of_all_lanes_of_a_queue_count_and_each_lane_is_named_once(self) -> None:
        untidied = Untidied()
        assert untidied.took([OTHER], now_s=0) == []
        assert untidied.took([LANE] * (FIRST - 1), now_s=0) == [LANE[1], OTHER[1]]

    def test_jobs_of_other_queues_do_not_count(self) -> None:
        untidied = Untidied()
        assert untidied.took([LANE, ELSEWHERE] * (FIRST - 1), now_s=0) == []
        assert untidied.took([ELSEWHERE], now_s=0) == [ELSEWHERE[1]]

    def test_lanes_are_tidied_for_a_single_job_a_second_after_the_first(self) -> None:
        untidied = Untidied()
        assert untidied.took([OTHER], now_s=0) == []
        assert untidied.took([LANE], now_s=EVERY_S * 0.9) == []
        assert untidied.took([LANE], now_s=EVERY_S) == [LANE[1], OTHER[1]]

    def test_after_that_the_count_and_the_second_begin_anew(self) -> None:
        untidied = Untidied()
        untidied.took([LANE] * FIRST, now_s=10)
        assert untidied.took([LANE] * (FIRST - 1), now_s=10 + EVERY_S * 0.9) == []
        assert untidied.took([OTHER], now_s=10 + EVERY_S * 0.9) == [LANE[1], OTHER[1]]
        assert untidied.took([OTHER], now_s=10 + EVERY_S * 2) == [OTHER[1]]

    def test_nothing_taken_tidies_nothing(self) -> None:
        untidied = Untidied()
        untidied.took([LANE], now_s=0)
        assert untidied.took([], now_s=EVERY_S) == []


class TestHowManyLanesAreAwake:
    def _most(self, awake: int) -> int:
        """So many jobs are taken until the lanes are tidied again."""
        untidied = Untidied()
        untidied.took([LANE] * FIRST, now_s=0)
        untidied.learn({"work": awake})
        return next(n for n in range(1, MOST + 2) if untidied.took([LANE], now_s=0))

    def test_says_how_often_they_are_tidied(self) -> None:
        assert [self._most(awake) for awake in (0, 1, 4, 6, 16, 101, 5000)] == [MOST, MOST, MOST, 15, 5, 1, 1]

    def test_bounds_how_many_later_jobs_overtake_one(self) -> None:
        for awake in range(2, OVERTAKEN + 2):
            assert self._most(awake) * (awake - 1) <= OVERTAKEN

    def test_is_remembered_when_the_count_begins_anew(self) -> None:
        untidied = Untidied()
        untidied.took([LANE], now_s=0)
        untidied.learn({"work": OVERTAKEN // 2 + 1})
        for _ in range(2):
            assert [untidied.took([LANE], now_s=0) for _ in range(2)] in ([[], [1]], [[1], []])
        assert untidied.came_short(["work"], now_s=EVERY_S) == ["work"]
        assert untidied.took([LANE, LANE], now_s=EVERY_S) == [1]

    def test_of_a_queue_of_which_nothing_was_taken_is_not_noted(self) -> None:
        untidied = Untidied()
        untidied.learn({"work": 101})
        assert untidied.took([LANE], now_s=0) == []


class TestQueuesThatHadLessThanAClaimWouldTake:
    def test_are_tidied_at_most_once_a_second(self) -> None:
        untidied = Untidied()
        assert untidied.came_short(["work"], now_s=0) == []
        assert untidied.came_short(["work"], now_s=EVERY_S) == ["work"]
        assert untidied.came_short(["work"], now_s=EVERY_S * 1.9) == []
        assert untidied.came_short(["work"], now_s=EVERY_S * 2) == ["work"]

    def test_are_each_a_case_of_their_own(self) -> None:
        untidied = Untidied()
        untidied.came_short(["work"], now_s=0)
        assert untidied.came_short(["gpu", "work"], now_s=EVERY_S) == ["work"]

    def test_need_not_be_tidied_for_what_was_taken_of_them_before(self) -> None:
        untidied = Untidied()
        untidied.took([LANE] * (FIRST - 1), now_s=0)
        assert untidied.came_short(["work"], now_s=EVERY_S) == ["work"]
        assert untidied.took([OTHER], now_s=EVERY_S) == []


def test_what_is_remembered_is_bounded_and_what_is_forgotten_is_tidied_within_a_second_of_claims() -> None:
    untidied = Untidied()
    untidied.took([LANE] * (FIRST - 1), now_s=0)
    untidied.took([(f"queue {n}", n) for n in range(KEPT + 1)], now_s=0)
    assert untidied.took([LANE], now_s=0) == []
    assert untidied.took([OTHER], now_s=EVERY_S) == [LANE[1], OTHER[1]]


def test_a_queue_that_is_forgotten_while_others_are_noted_does_no_harm() -> None:
    untidied = Untidied()
    untidied.took([("work", 1), *((f"queue {n}", n) for n in range(KEPT - 1))], now_s=0)
    assert untidied.came_short(["work", "new", "newer"], now_s=EVERY_S) == ["work"]

"""What a process knows of what owners use, between two readings."""

from jobs.domain.quotas import FRESH_S, MOST_READINGS, Ledger, Quota


class TestALedger:
    def test_adds_what_was_let_in_to_what_was_read(self) -> None:
        ledger = Ledger()
        ledger.read(7, 10, now_s=0.0)
        ledger.add(7, 5)
        assert (ledger.used(7), ledger.used(8)) == (15, 0)

    def test_notes_nothing_of_owners_that_were_never_read(self) -> None:
        ledger = Ledger()
        ledger.add(7, 5)
        assert (ledger.used(7), ledger.is_fresh(7, now_s=0.0)) == (0, False)

    def test_is_fresh_for_some_seconds(self) -> None:
        ledger = Ledger()
        ledger.read(7, 10, now_s=100.0)
        assert ledger.is_fresh(7, now_s=100.0 + FRESH_S - 0.1)
        assert not ledger.is_fresh(7, now_s=100.0 + FRESH_S)

    def test_replaces_what_was_let_in_by_a_reading_of_now_and_keeps_it_with_one_of_before(self) -> None:
        ledger = Ledger()
        for read, used in ((ledger.read, 20), (ledger.read_of_before, 25)):
            ledger.read(7, 10, now_s=0.0)
            ledger.add(7, 5)
            read(7, 20, now_s=6.0)
            assert ledger.used(7) == used
        ledger.read_of_before(7, 20, now_s=12.0)
        assert ledger.used(7) == 20

    def test_names_those_that_use_more_than_so_much(self) -> None:
        ledger = Ledger()
        for owner, used in ((1, 5), (2, 6), (3, 1)):
            ledger.read(owner, used, now_s=0.0)
        ledger.add(3, 9)
        assert sorted(ledger.near(most=5)) == [2, 3]

    def test_forgets_the_oldest_when_it_is_full(self) -> None:
        ledger = Ledger()
        for owner in range(MOST_READINGS):
            ledger.read(owner, 1, now_s=0.0)
        ledger.read(-1, 2, now_s=FRESH_S)
        assert (ledger.used(0), ledger.used(-1)) == (0, 2)


def test_a_quota_is_nearly_reached_beyond_nine_tenths() -> None:
    used = [Quota(resource="files", of="farm", quota=10, used=n).is_nearly_reached for n in (8, 9, 10)]
    assert used == [False, False, True]

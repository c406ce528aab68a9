"""Whatever the order in which deliveries come, and however often, the tables end the same."""

import random

import pytest

from tests.webhook_samples import clear, handle, routed, samples, written

pytestmark = pytest.mark.django_db

SEEDS = range(5)
GIVEN = [sample.file for sample in routed()]


def after(files: list[str]) -> dict[str, list[dict[str, object]]]:
    """What lies in the tables after these files were told one after the other."""
    clear()
    known = {sample.file: sample for sample in samples()}
    for file in files:
        handle(known[file].event())
    return written()


class TestOrders:
    def test_every_table_is_written_by_some_sample(self) -> None:
        assert [table for table, rows in after(GIVEN).items() if not rows] == []

    def test_given_and_reversed_end_the_same(self) -> None:
        assert after(GIVEN[::-1]) == after(GIVEN)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_shuffled_and_repeated_end_the_same(self, seed: int) -> None:
        rng = random.Random(seed)
        files = GIVEN + rng.choices(GIVEN, k=len(GIVEN) // 2)
        rng.shuffle(files)
        assert after(files) == after(GIVEN)

"""Whatever the order in which deliveries come, and however often, the tables end the same."""

import random
import re

import pytest

from tests.webhook_samples import changed, clear, handle, report, routed, samples, written
from webhooks.models.resources import TYPES

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


def test_what_a_type_declares_for_its_list_is_said_by_some_sample() -> None:
    """A filter or a column by another name than the handler's would be empty for ever."""
    after(GIVEN)
    issue = "github/issues.opened.1.json"  # the samples are older than an issue's reason
    report(issue, body=changed(issue, issue__state_reason="completed", issue__updated_at="2026-01-01T00:00:00Z"))
    for table in TYPES:
        fields = {name for document in table.objects.values_list("document", flat=True) for name in document}
        shape = table.shape
        declared = {*shape.columns, *shape.filters, *(name.removeprefix("=") for name in shape.searches)}
        declared |= {"parent"} if shape.parent else set()
        declared |= set(re.findall(r"\{(\w+)", shape.title)) - {"external_id"}
        assert declared - fields == set(), table.__name__

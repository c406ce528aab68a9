"""A cron or a function whose arguments cannot be read: what its pages, and the administration's, make of it."""

from typing import Any

import pytest
from django.db import connection

from jobs.operations.from_crons import submit_job
from scheduling import operations as scheduling, registry
from scheduling.models import Cron, ScheduledFunction
from tests.scheduling import spoiled
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)


class TestArgumentsThatCannotBeRead:
    """Its cron, or its function, is looked at and mended like any other; and is run again by nobody."""

    def test_of_a_cron_keep_no_page_from_opening(self) -> None:
        spoiled.due_cron("unreadable", function=registry.dotted_name(submit_job))
        spoiled.spoil("scheduling_cron", "name", "unreadable")
        root = spoiled.root()
        for page in ("/", "/admin/", "/crons/", "/admin/scheduling/cron/"):
            assert root.get(page).status_code == 200, page
        for page in ("/crons/unreadable/", "/crons/unreadable/edit/"):
            assert spoiled.UNREADABLE in root.get(page).content.decode(), page

    def test_are_said_to_who_runs_it_again(self) -> None:
        spoiled.due_cron("unreadable")
        row = scheduling.run_after(60, sample.say, word="hi")
        scheduling.cancel(row.pk)
        spoiled.spoil("scheduling_cron", "name", "unreadable")
        spoiled.spoil("scheduling_scheduledfunction", "id", row.pk)
        root, functions, crons_ = spoiled.root(), "/admin/scheduling/scheduledfunction/", "/admin/scheduling/cron/"
        for address, form in (
            (f"/functions/{row.pk}/run-again/", {}),
            ("/crons/unreadable/run/", {}),
            (functions, {"action": "run_again", "_selected_action": [row.pk], "confirmed": "yes"}),
            (crons_, {"action": "run_now", "_selected_action": ["unreadable"], "confirmed": "yes"}),
        ):
            answer: Any = root.post(address, form, follow=True)
            sentence = " ".join(map(str, answer.context["messages"]))
            assert (answer.status_code, "its arguments cannot be read any more" in sentence) == (200, True), address
        assert ScheduledFunction.objects.count() == 1

    def test_of_a_cron_keep_nobody_from_pausing_and_resuming_it(self) -> None:
        spoiled.due_cron("unreadable")
        spoiled.spoil("scheduling_cron", "name", "unreadable")
        scheduling.pause("unreadable")
        scheduling.resume("unreadable")
        assert Cron.objects.get().paused_at is None


@pytest.mark.parametrize("moment", ["-infinity", "infinity", "0044-03-15 12:00 BC", "20000-01-01 00:00"])
def test_a_moment_that_no_calendar_has_stands_on_every_page_and_its_cron_is_resumed(moment: str) -> None:
    for name in ("broken", "whole"):
        spoiled.due_cron(name)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_cron SET next_at = %s WHERE name = 'broken'", [moment])
    root = spoiled.root()
    for _ in range(2):  # as it came, and as the scheduler left it
        for page in ("/", "/admin/", "/crons/", "/admin/scheduling/cron/"):
            answer = root.get(page)
            assert (answer.status_code, "whole" in answer.content.decode()) == (200, True), page
        for page in ("/crons/broken/", "/crons/broken/edit/"):
            assert root.get(page).status_code == 200, page
        scheduling.fire_due()
    scheduling.pause("broken")
    scheduling.resume("broken")
    assert Cron.objects.get(pk="broken").next_at is not None

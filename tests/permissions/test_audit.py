"""What operators do leaves a line in the log of the administration, with their name."""

import pytest
from django.contrib.admin.models import LogEntry

from tests.permissions import asking, forms, table
from tests.permissions.world import World

pytestmark = pytest.mark.django_db
# Theirs as people, as everybody's: what they make for themselves and say in rooms; and what only asks (jobs/bulk/ says
# how many match before anything is done). Of jobs, what is submitted keeps its owner.
_AS_PEOPLE = ("accounts/", "api/v1/jobs", "api/v1/files", "api/v1/flows", "chat/", "game/", "translation/",
              "jobs/new/", "jobs/bulk/", "api/v1/bulk-actions", "jobs/filters/")  # fmt: skip
_ACTIONS = [
    (pattern, cells)
    for method, pattern, cells in table.lines()
    if method == "POST" and "+" in cells["staff"] and (not pattern.startswith(_AS_PEOPLE) or ">/" in pattern)
    and not pattern.startswith(("accounts/", "chat/", "game/"))
]  # fmt: skip


def test_there_are_actions() -> None:
    assert len(_ACTIONS) > 20


@pytest.mark.parametrize("who", ["staff", "root"])
def test_each_action_of_an_operator_leaves_a_line(farm: World, who: str) -> None:
    browser = farm.browsers()[who]
    silent = []
    for pattern, _ in _ACTIONS:
        names = farm.names(pattern)
        with asking.undone(browser):
            newest = LogEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
            asking.send(browser, "POST", asking.address(pattern, names), forms.form(pattern, names))
            lines = LogEntry.objects.filter(pk__gt=newest, user=farm.users[who])
            if not lines or not all(line.get_change_message() for line in lines):
                silent.append(pattern)
    assert silent == []


def test_a_job_that_is_canceled_over_the_api_leaves_a_line_too(farm: World) -> None:
    browser, pattern = farm.browsers()["staff"], "api/v1/jobs/<jobid:job_id>/cancel"
    with asking.undone(browser):
        asking.send(browser, "POST", asking.address(pattern, farm.names(pattern)), {})
        entry = LogEntry.objects.latest("pk")
        assert (entry.user, entry.object_id) == (farm.users["staff"], str(farm.names(pattern)["job_id"]))
        assert entry.get_change_message() == "canceled while running"

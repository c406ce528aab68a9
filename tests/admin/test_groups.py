"""The two groups of people who run a farm, and what their members may do."""

from io import StringIO

import pytest
from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command

from jobfarm import administration
from jobs.models import Job, Queue
from tests import farm
from tests.admin.conftest import As

pytestmark = pytest.mark.django_db


def create_groups(*arguments: str) -> list[str]:
    """What the command says."""
    out = StringIO()
    call_command("create_groups", *arguments, stdout=out)
    return out.getvalue().splitlines()


def rights(name: str) -> set[str]:
    found = Permission.objects.filter(group__name=name)
    return {f"{app}.{code}" for app, code in found.values_list("content_type__app_label", "codename")}


class TestTheGroups:
    def test_are_made_once(self) -> None:
        assert [line.partition(",")[0] for line in create_groups()] == [
            "operators (read only): made",
            "operators: made",
        ]
        assert create_groups() == ["operators (read only): as it should be.", "operators: as it should be."]

    def test_look_at_everything_and_operators_act_besides(self) -> None:
        create_groups()
        looking, acting = rights(administration.READERS), rights(administration.OPERATORS)
        assert {right.partition(".")[2].partition("_")[0] for right in looking} == {"view"}
        assert {"jobs.view_job", "jobs.view_attempt", "webhooks.view_secret", "auth.view_user"} <= looking
        assert acting - looking == administration.ACTIONS
        assert looking <= acting

    def test_cannot_raise_themselves(self) -> None:
        create_groups()
        risky = {
            f"auth.{action}_{table}"
            for action in ("add", "change", "delete")
            for table in ("user", "group", "permission")
        }
        assert rights(administration.OPERATORS) & risky == set()

    def test_stay_as_somebody_left_them_until_they_are_put_right(self) -> None:
        create_groups()
        group = Group.objects.get(name=administration.READERS)
        group.permissions.remove(*group.permissions.filter(codename="view_secret"))
        group.permissions.add(Permission.objects.get(codename="add_user"))
        differences = ["  - webhooks.view_secret", "  + auth.add_user"]
        first, *lines = create_groups()
        assert first.endswith("1 rights missing, 1 more than a new one has. --reset puts that right.")
        assert lines[:2] == differences
        assert "auth.add_user" in rights(administration.READERS)
        create_groups("--reset")
        assert create_groups()[0] == "operators (read only): as it should be."

    def test_keep_what_they_have_of_apps_that_are_not_installed_here(self) -> None:
        """`make run` brings the examples along, and a command in a second terminal does not."""
        create_groups()
        elsewhere = ContentType.objects.create(app_label="elsewhere", model="message")
        further = Permission.objects.create(codename="view_message", name="x", content_type=elsewhere)
        group = Group.objects.get(name=administration.READERS)
        group.permissions.add(further)
        assert create_groups("--reset")[0] == "operators (read only): as it should be."
        assert administration.READERS in administration.unchanged_groups()
        administration.extend([administration.READERS])
        assert further in group.permissions.all()


def upgrade() -> None:
    """What `manage.py migrate` does to groups and rights."""
    unchanged = administration.unchanged_groups()
    create_permissions(apps.get_app_config("outbox"), verbosity=0)
    administration.extend(unchanged)


class TestAnUpgrade:
    """Rights that a migration brings: here one that the database does not know yet. The command itself opens a
    connection of its own, so what it does around Django's part is called here."""

    @pytest.fixture(autouse=True)
    def _before(self) -> None:
        Permission.objects.filter(codename="operate_endpoint").delete()
        create_groups()

    def test_gives_them_to_a_group_that_nobody_changed(self) -> None:
        assert "outbox.operate_endpoint" not in rights(administration.OPERATORS)
        upgrade()
        assert "outbox.operate_endpoint" in rights(administration.OPERATORS)
        assert create_groups() == ["operators (read only): as it should be.", "operators: as it should be."]

    @pytest.mark.parametrize("change", ["add", "remove"])
    def test_leaves_a_group_alone_that_somebody_changed(self, change: str) -> None:
        group = Group.objects.get(name=administration.OPERATORS)
        codename = {"add": "add_user", "remove": "view_secret"}[change]
        getattr(group.permissions, change)(Permission.objects.get(codename=codename))
        before = rights(administration.OPERATORS)
        upgrade()
        assert rights(administration.OPERATORS) == before
        assert rights(administration.READERS) >= {"outbox.view_endpoint"}

    def test_makes_no_group(self) -> None:
        Group.objects.all().delete()
        upgrade()
        assert not Group.objects.exists()


class TestMembers:
    def test_who_read_are_offered_no_action(self, as_: As) -> None:
        farm.kind()
        (job,) = farm.submit(1)
        reader = as_("readers")
        page = reader.get("/admin/jobs/job/").content.decode()
        assert ('name="action"' in page, "cancel_selected" in page) == (False, False)
        differences = {"action": "cancel_selected", "_selected_action": [job.pk], "confirmed": "yes"}
        reader.post("/admin/jobs/job/", differences)
        paused = {"action": "pause", "_selected_action": ["work"], "confirmed": "yes"}
        reader.post("/admin/jobs/queue/", paused)
        assert reader.post(f"/jobs/{job.pk}/cancel/").status_code == 302  # to the page, with why not
        assert (Job.objects.get().status, Queue.objects.get(pk="work").paused_at) == ("pending", None)

    def test_who_operate_act(self, as_: As) -> None:
        farm.kind()
        (job,) = farm.submit(1)
        operator = as_("operators")
        operator.post("/admin/jobs/queue/", {"action": "pause", "_selected_action": ["work"], "confirmed": "yes"})
        cancel = {"action": "cancel_selected", "_selected_action": [job.pk], "confirmed": "yes"}
        assert operator.post("/admin/jobs/job/", cancel).status_code == 302
        assert (Job.objects.get().status, Queue.objects.get(pk="work").paused_at is None) == ("canceled", False)
        assert operator.get("/admin/auth/user/add/").status_code == 403
        assert operator.get("/workers/connect/").status_code == 200

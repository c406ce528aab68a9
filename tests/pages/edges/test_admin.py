"""The administration: nothing is edited past the operations, and everything done leaves a line."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client

from jobs import operations
from jobs.models import Job, Kind, Queue, Worker
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db
JOBS = "/admin/jobs/job/"


def _messages(answer: Any) -> list[str]:
    return [str(message) for message in answer.context["messages"]]


def _act(client: Client, action: str, jobs: list[Job], **more: str) -> Any:
    form = {"action": action, "_selected_action": [job.pk for job in jobs], **more}
    return client.post(JOBS, form, follow=True)


class TestJobs:
    def test_cancel_asks_first_and_says_how_they_stand(self, browse: Browse, little_farm: Farm) -> None:
        running = farm.claim_one(little_farm.worker)
        waiting = farm.submit(2, "image")
        jobs = [*waiting, Job.objects.get(pk=running.id)]
        answer = _act(browse(little_farm.oscar), "cancel_selected", jobs)
        assert answer.context["lines"] == ["1 in progress", "2 pending"]
        assert {"pending", "in_progress"} == set(farm.statuses())

    def test_cancel_counts_the_verdicts(self, browse: Browse, little_farm: Farm) -> None:
        running = farm.claim_one(little_farm.worker)
        waiting, (ended,) = farm.submit(2, "image"), farm.submit(1, "image")
        operations.cancel(ended.pk, by=None)
        jobs = [*waiting, ended, Job.objects.get(pk=running.id)]
        answer = _act(browse(little_farm.oscar), "cancel_selected", jobs, confirmed="yes")
        assert _messages(answer) == ["2 canceled before start; 1 canceled while running; 1 too late"]
        assert {"canceled"} == set(farm.statuses())
        assert LogEntry.objects.filter(user=little_farm.oscar, change_message__startswith="canceled").count() == 3

    def test_everything_that_matches_a_filter_is_chosen(self, browse: Browse, little_farm: Farm) -> None:
        farm.submit(60, "image")
        form = {"action": "cancel_selected", "select_across": "1", "_selected_action": ["1"], "confirmed": "yes"}
        browse(little_farm.oscar).post(f"{JOBS}?kind=image", form)
        assert (
            Job.objects.ended("canceled").filter(kind="image").count(),
            Job.objects.waiting().filter(kind="chat").count(),
        ) == (60, 1)

    def test_the_question_carries_what_was_chosen(self, browse: Browse, little_farm: Farm) -> None:
        jobs = farm.submit(3, "image")
        client = browse(little_farm.oscar)
        confirmation = _act(client, "cancel_selected", jobs)
        form: dict[str, list[str]] = {"confirmed": ["yes"]}
        for name, value in confirmation.context["carried"]:
            form.setdefault(name, []).append(value)
        client.post(JOBS, form)
        assert Job.objects.ended("canceled").filter(kind="image").count() == 3

    def test_try_again_counts_what_it_came_to(self, browse: Browse, little_farm: Farm) -> None:
        ended = farm.submit(2, "image")
        for job in ended:
            operations.cancel(job.pk, by=None)
        jobs = [*ended, little_farm.job]
        answer = _act(browse(little_farm.oscar), "retry_selected", jobs, confirmed="yes")
        assert _messages(answer) == ["2 retried; 1 The job has not ended yet, so it cannot be retried as a new one."]
        assert {job.pk for job in ended} == set(
            Job.objects.filter(retry_of__isnull=False).values_list("retry_of", flat=True)
        )

    def test_try_again_leaves_out_what_was_retried(self, browse: Browse, little_farm: Farm) -> None:
        ended = farm.submit(2, "image")
        for job in ended:
            operations.cancel(job.pk, by=None)
        operations.retry(ended[0].pk, by=None)
        client = browse(little_farm.oscar)
        answers = [_messages(_act(client, "retry_selected", ended, confirmed="yes")) for _ in range(2)]
        already = "retried before, left out"
        assert answers[0] in (["1 retried; 1 " + already], [f"1 {already}; 1 retried"])
        assert answers[1] == ["2 " + already]
        assert Job.objects.exclude(retry_of=None).count() == 2

    def test_one_is_shown_on_its_page_of_the_site(self, browse: Browse, little_farm: Farm) -> None:
        answer = browse(little_farm.oscar).get(f"{JOBS}{little_farm.job.pk}/change/")
        assert (answer.status_code, answer["Location"]) == (302, f"/jobs/{little_farm.job.pk}/")

    def test_what_cannot_be_a_number_is_not_there(self, browse: Browse, little_farm: Farm) -> None:
        assert browse(little_farm.oscar).get(f"{JOBS}none/change/").status_code == 404

    def test_whoever_may_only_look_cannot_cancel(self, browse: Browse, little_farm: Farm) -> None:
        little_farm.oscar.user_permissions.remove(*little_farm.oscar.user_permissions.filter(codename="operate_job"))
        client = browse(User.objects.get(pk=little_farm.oscar.pk))
        _act(client, "cancel_selected", [little_farm.job], confirmed="yes")
        assert farm.status(little_farm.job) == "pending"

    @pytest.mark.parametrize("path", ["add/", "{job}/delete/"])
    def test_is_not_added_nor_deleted(self, browse: Browse, little_farm: Farm, path: str) -> None:
        boss = User.objects.create_superuser("boss", password=farm.PASSWORD)
        assert browse(boss).post(f"{JOBS}{path.format(job=little_farm.job.pk)}", {"post": "yes"}).status_code == 403
        assert Job.objects.filter(pk=little_farm.job.pk).exists()

    def test_is_not_edited(self, browse: Browse, little_farm: Farm) -> None:
        boss = User.objects.create_superuser("boss", password=farm.PASSWORD)
        assert browse(boss).post(f"{JOBS}{little_farm.job.pk}/change/", {"priority": "9"}).status_code == 403

    @pytest.mark.parametrize(
        ("term", "found"), [("chat", True), ("cha", False), ("key-1", True), ("9" * 40, False), ("key", False)]
    )
    def test_search_finds_whole_words(self, browse: Browse, little_farm: Farm, term: str, found: bool) -> None:
        Job.objects.filter(pk=little_farm.job.pk).update(unique_key="key-1")
        answer = browse(little_farm.oscar).get(JOBS, {"q": term})
        assert (200, found) == (answer.status_code, answer.context["cl"].result_count == 1)

    def test_counts_no_further_than_it_pages(
        self, browse: Browse, little_farm: Farm, django_assert_max_num_queries: Callable[..., Any]
    ) -> None:
        client = browse(little_farm.oscar)
        with django_assert_max_num_queries(14) as seen:
            client.get(JOBS)
        form = [query["sql"] for query in seen.captured_queries]
        assert [" LIMIT 10000" in sql for sql in form if "COUNT(" in sql and "jobs_job" in sql] == [True]


class TestWorkers:
    def test_one_is_made_on_the_farms_own_page(self, browse: Browse, little_farm: Farm) -> None:
        boss = User.objects.create_superuser("boss", password=farm.PASSWORD)
        client, worker = browse(boss), little_farm.worker
        form = {"name": "rack", "queues": "chat"}
        assert client.post("/admin/jobs/worker/add/", form).status_code == 403
        assert client.get(f"/admin/jobs/worker/{worker.pk}/change/")["Location"] == f"/workers/{worker.pk}/"

    def test_revoking_leaves_a_line(self, browse: Browse, little_farm: Farm) -> None:
        client, chosen = browse(little_farm.oscar), {"_selected_action": [little_farm.worker.pk]}
        form = {"action": "revoke_selected", **chosen}
        assert client.post("/admin/jobs/worker/", form).context["lines"] == [little_farm.worker.name]
        client.post("/admin/jobs/worker/", {**form, "confirmed": "yes"})
        little_farm.worker.refresh_from_db()
        assert little_farm.worker.revoked_at is not None
        assert [entry.get_change_message() for entry in LogEntry.objects.all()] == ["key revoked"]

    def test_deleting_a_person_takes_their_workers_along(self, browse: Browse, little_farm: Farm) -> None:
        farm.worker("evas", "chat", owner=little_farm.eve)
        boss = User.objects.create_superuser("boss", password=farm.PASSWORD)
        browse(boss).post(f"/admin/auth/user/{little_farm.eve.pk}/delete/", {"post": "yes"})
        assert (User.objects.filter(username="eve").exists(), Worker.objects.filter(name="evas").exists()) == (
            False,
            False,
        )


class TestQueues:
    def test_pause_and_resume_are_noted_after_a_question(self, browse: Browse, little_farm: Farm) -> None:
        client = browse(little_farm.oscar)
        for action, is_paused in (("pause", True), ("resume", False)):
            form = {"action": action, "_selected_action": ["chat", "image"]}
            confirmation = client.post("/admin/jobs/queue/", form)
            assert confirmation.context["lines"] == ["chat", "image"]
            assert Queue.objects.filter(paused_at__isnull=False).count() == (0 if is_paused else 2)
            client.post("/admin/jobs/queue/", {**form, "confirmed": "yes"})
            paused = Queue.objects.filter(paused_at__isnull=False).count()
            assert (2 if is_paused else 0) == paused
        assert LogEntry.objects.filter(user=little_farm.oscar).count() == 4

    def test_one_is_changed_on_its_page_of_the_site(self, browse: Browse, little_farm: Farm) -> None:
        operations.create_worker("rack", queues=["a_b.c-d"])
        answer = browse(little_farm.oscar).get(f"/admin/jobs/queue/{quote('a_b.c-d')}/change/")
        assert answer["Location"] == "/queues/a_b.c-d/"


class TestKinds:
    FORM = {
        "name": "transcribe", "queue": "audio", "priority": "0", "max_attempts": "2", "backoff_first_s": "1",
        "backoff_base": "2", "backoff_cap_s": "60", "timeout_s": "", "expires_s": "",
        "limit": "", "limit_count": "1", "limit_key": "", "on_overflow": "wait",
    }  # fmt: skip

    def test_a_new_one_brings_its_queue(self, browse: Browse, little_farm: Farm) -> None:
        browse(little_farm.oscar).post("/admin/jobs/kind/add/", self.FORM)
        assert Kind.objects.values_list("queue", "max_attempts").get(pk="transcribe") == ("audio", 2)
        assert Queue.objects.filter(pk="audio").exists()

    @pytest.mark.parametrize(
        ("form", "field"),
        [
            ({"name": "chat"}, "name"),
            ({"name": "NO"}, "name"),
            ({"queue": "NO"}, "queue"),
            ({"max_attempts": "0"}, "max_attempts"),
            ({"backoff_base": "0.5"}, "__all__"),
            ({"backoff_base": "nan"}, "backoff_base"),
            ({"timeout_s": "-1"}, "__all__"),
            ({"priority": "101"}, "priority"),
            ({"requires": '["gpu"]'}, "__all__"),
            ({"requires": "16"}, "__all__"),
            ({"requires": '{"gpu": "\\ud800"}'}, "requires"),
        ],
    )
    def test_a_rule_broken_is_an_error_in_the_form(
        self, browse: Browse, little_farm: Farm, form: dict[str, str], field: str
    ) -> None:
        answer = browse(little_farm.oscar).post("/admin/jobs/kind/add/", self.FORM | form)
        assert (200, [field]) == (answer.status_code, list(answer.context["adminform"].form.errors))
        assert not Kind.objects.exists()

    def test_a_change_keeps_its_name(self, browse: Browse, little_farm: Farm) -> None:
        farm.kind("work")
        browse(little_farm.oscar).post("/admin/jobs/kind/work/change/", self.FORM | {"name": "other", "queue": "work"})
        assert list(Kind.objects.values_list("name", "max_attempts")) == [("work", 2)]

"""A Django site whose tasks run on a farm: another project, in processes of its own (sites.py: of another Django)."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from accounts import operations as accounts
from jobs import operations
from jobs.models import IdempotencyKey, Job, Worker
from tests.api.edges.cutting import EVERY, cutting
from tests.client.integration.sites import Site
from tests.farm import kind, make_due, until, user
from tests.servers import Server

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site that has its tables, and nothing in them."""
    folder = tmp_path_factory.mktemp("site")
    code, output = Site(folder, farm=NOWHERE, token="none", key="none").manage("migrate")
    assert code == 0, output
    return folder


@pytest.fixture
def site(server: Server, tables: Path, tmp_path: Path) -> Site:
    """A site with its tables, on a farm that has its kind; its token's owner may choose queues."""
    kind("django-task", max_attempts=2)
    kind("letters")
    owner = user("site", is_staff=True, is_superuser=True)
    _, token = accounts.create_token(owner, name="site")
    _, key = operations.create_worker("site-1", queues=["django-task", "letters"])
    shutil.copytree(tables, tmp_path, dirs_exist_ok=True)
    return Site(tmp_path, farm=server.url, token=token, key=key)


def enqueue(call: str) -> str:
    """Code of the site that enqueues and answers with the result's id."""
    return f"result = tasks.{call}\nanswer = result.id"


def results(ids: list[str]) -> str:
    """Code of the site that reads results until all have ended: status, value, errors of each."""
    return (
        "import time\n"
        f"found = [task_backends['default'].get_result(result_id) for result_id in {ids!r}]\n"
        "while not all(result.is_finished for result in found):\n"
        "    time.sleep(0.1)\n"
        "    [result.refresh() for result in found]\n"
        "answer = [of(result) for result in found]"
    )


class TestASite:
    def test_needs_one_app_and_lacks_no_migration(self, site: Site) -> None:
        assert site.manage("makemigrations", "--check", "--dry-run", "jobfarm_client")[0] == 0
        code, output = site.manage("check")
        assert (code, "no issues" in output) == (0, True)

    def test_is_told_what_its_settings_lack(self, site: Site) -> None:
        code, output = site.manage("check", farm="nonsense")
        assert (code, "jobfarm_client.E001" in output) == (1, True)


class TestTasks:
    def test_run_on_the_sites_own_machine(self, site: Site) -> None:
        ids = [
            site.run(enqueue(call))
            for call in (
                "write.enqueue('Ada', times=2)",
                "write_later.enqueue('Bob')",
                "count.enqueue()",
                "write.using(queue_name='letters', priority=5).enqueue('Cay')",
            )
        ]
        with site.working("--concurrency", "2"):
            values = site.run(results(ids))
        assert values == [
            ["SUCCESSFUL", ["Dear Ada", "Dear Ada"], []],
            ["SUCCESSFUL", "Later, Bob", []],
            ["SUCCESSFUL", 1, []],
            ["SUCCESSFUL", ["Dear Cay"], []],
        ]
        assert set(Job.objects.values_list("queue", "priority")) == {("django-task", 0), ("letters", 5)}

    def test_that_raise_fail_with_the_class_and_the_traceback(self, site: Site) -> None:
        result_id = site.run(enqueue("fail.enqueue('Nobody')"))
        job = Job.objects.get()
        with site.working():
            until(lambda: [one.failures for one in Job.objects.waiting()] == [1], what="the first attempt")
            make_due(job)
            values = site.run(results([result_id]))
        assert values == [["FAILED", None, ["letters.tasks.NoSuchAddress"] * 2]]
        code = f"answer = task_backends['default'].get_result({result_id!r}).errors[-1].traceback"
        assert "NoSuchAddress: nobody is called\nNobody" in site.run(code)

    def test_are_not_run_again_for_a_receiver_that_raises(self, site: Site) -> None:
        answer = site.run(
            "from types import SimpleNamespace\n"
            "from jobfarm_client.django.management.commands import farm_worker as running\n"
            "from jobfarm_client.django.interface import task_enqueued, task_finished, task_started\n"
            "called = []\n"
            "def broken(*, signal, **_):\n"
            "    called.append(signal)\n"
            "    raise ValueError('of the receiver')\n"
            "for signal in (task_enqueued, task_finished, task_started):\n"
            "    signal.connect(broken)\n"
            "tasks.write.enqueue('Ada')\n"
            "def ran(name):\n"
            "    call = {'task': f'letters.tasks.{name}', 'args': ['Ada'], 'kwargs': {}}\n"
            "    try:\n"
            "        return running.handler('default')(\n"
            "            SimpleNamespace(id=7, attempt=2, max_attempts=2, payload=call))\n"
            "    except Exception as error:\n"
            "        return str(error).split()[0]\n"
            "answer = [ran('write'), ran('fail'), len(called)]"
        )
        assert answer == [["Dear Ada"], "letters.tasks.NoSuchAddress", 5]

    def test_that_are_none_of_the_sites_are_not_run(self, site: Site) -> None:
        payloads: list[Any] = [{"task": "letters.tasks.secret", "args": [], "kwargs": {}}, "nonsense", {}]
        jobs = [operations.submit("django-task", payload) for payload in payloads]
        ids = [site.run(enqueue("write.enqueue('Ada')"))]
        with site.working():
            site.run(results(ids))
        for job in jobs:
            job.refresh_from_db()
            assert (job.status, job.attempt) == ("failed", 1), "no second attempt"

    def test_run_on_the_machines_that_their_backend_requires(self, site: Site) -> None:
        result_id = site.run(enqueue("write.using(backend='large').enqueue('Ada')"))
        requirement = Job.objects.get().requirement
        assert requirement is not None
        assert (requirement.requires, requirement.prefers) == ({"vram": ">=16"}, {"region": "home|lab"})
        with site.working("--backend", "large", "--label", "vram=8"):
            until(lambda: Worker.objects.get().last_seen_at is not None, what="a small machine")
            assert site.run(enqueue("write.enqueue('Bob')")) != result_id
            until(lambda: Job.objects.ended("success").exists(), what="what needs no more")
        assert Job.objects.exclude(requirement=None).get().status == "pending"
        with site.working("--backend", "large", "--label", "vram=24"):
            values = site.run(results([result_id]).replace("'default'", "'large'"))
        assert values == [["SUCCESSFUL", ["Dear Ada"], []]]

    def test_wait_until_they_may_run(self, site: Site) -> None:
        code = (
            "from datetime import timedelta\nfrom django.utils import timezone\n"
            "later = timezone.now() + timedelta(hours=1)\n"
            "result = tasks.write.using(run_after=later).enqueue('Ada')\n"
            "result.refresh()\nanswer = [result.status, result.task.run_after == later]"
        )
        assert site.run(code) == ["READY", True]
        assert Job.objects.get().run_at > Job.objects.get().created_at


class TestTransactions:
    def test_that_are_undone_leave_nothing(self, site: Site) -> None:
        code = (
            "try:\n"
            "    with transaction.atomic():\n"
            "        tasks.write.enqueue('Ada')\n"
            "        raise KeyError\n"
            "except KeyError:\n"
            "    pass\n"
            "from jobfarm_client.django.models import FarmTask\n"
            "answer = FarmTask.objects.count()"
        )
        assert (site.run(code), Job.objects.count()) == (0, 0)

    def test_that_are_none_send_at_once_what_is_ready_then(self, site: Site) -> None:
        assert site.run("answer = tasks.write.enqueue('Ada').status") == "READY"
        assert Job.objects.get().status == "pending"

    def test_send_nothing_before_they_commit(self, site: Site) -> None:
        code = (
            "with transaction.atomic():\n"
            "    result = tasks.write.enqueue('Ada')\n"
            "    from jobfarm_client.django.models import FarmTask\n"
            "    answer = FarmTask.objects.get().job\n"
            "answer = [answer, FarmTask.objects.get().job]"
        )
        before, after = site.run(code)
        assert (before, after) == (None, Job.objects.get().pk)


class TestAFarmThatIsAway:
    def test_gets_the_task_later_and_once(self, site: Site) -> None:
        result_id = site.run(enqueue("write.enqueue('Ada')"), farm=NOWHERE)
        assert site.run(f"answer = of(task_backends['default'].get_result({result_id!r}))")[0] == "READY"
        assert site.manage("farm_outbox", "--now", farm=NOWHERE)[0] == 1
        assert Job.objects.count() == 0
        assert site.manage("farm_outbox", "--now") == (0, "1 sent, 0 waiting, 0 refused\n")
        assert site.manage("farm_outbox", "--now") == (0, "0 sent, 0 waiting, 0 refused\n")
        assert Job.objects.get().unique_key == result_id

    def test_gets_it_with_the_next_that_arrives(self, site: Site) -> None:
        code = (
            "from jobfarm_client.django.models import FarmTask\n"
            "answer = FarmTask.objects.update(due_at=FarmTask.objects.get().created_at)"
        )
        site.run(enqueue("write.enqueue('Ada')"), farm=NOWHERE)
        site.run(code)
        site.run(enqueue("write.enqueue('Bob')"))
        assert Job.objects.count() == 2

    def test_whose_answer_was_lost_gets_it_once(self, site: Site, server: Server) -> None:
        code = f"answer = [tasks.write.enqueue('Ada').id for _ in range({EVERY})]"
        with cutting(server) as between:
            ids = site.run(code, farm=between.url)
            assert between.cut == 1
        assert site.manage("farm_outbox", "--now") == (0, "1 sent, 0 waiting, 0 refused\n")
        assert set(Job.objects.values_list("unique_key", flat=True)) == set(ids)
        assert Job.objects.count() == EVERY

    def test_has_forgotten_the_key_and_the_job_has_ended(self, site: Site) -> None:
        """Its answer was lost more than a day ago: the task's own unique_key finds the job."""
        result_id = site.run(enqueue("write.enqueue('Ada')"))
        job = Job.objects.get()
        operations.cancel(job.pk, by=None)
        code = (
            "from datetime import timedelta\nfrom jobfarm_client.django.models import FarmTask\n"
            "row = FarmTask.objects.get()\n"
            "row.first_tried_at -= timedelta(days=2)\nrow.job, row.due_at = None, row.created_at\n"
            "row.save()\nanswer = None"
        )
        site.run(code)
        IdempotencyKey.objects.all().delete()
        assert site.manage("farm_outbox")[0] == 0
        assert Job.objects.count() == 1
        assert site.run(f"answer = of(task_backends['default'].get_result({result_id!r}))")[0] == "FAILED"


class TestARefusal:
    def test_ends_the_task_until_somebody_sends_it_again(self, site: Site) -> None:
        code = (
            "task_backends['default'].options['kind'] = 'not-there'\n" + enqueue("write.enqueue('Ada')") + "\n"
            "answer = of(task_backends['default'].get_result(answer))"
        )
        assert site.run(code) == ["FAILED", None, ["jobfarm_client.errors.Refused"]]
        kind("not-there")
        assert site.manage("farm_outbox")[0] == 1
        assert site.manage("farm_outbox", "--again") == (0, "1 sent, 0 waiting, 0 refused\n")
        assert Job.objects.get().kind == "not-there"

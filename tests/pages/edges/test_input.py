"""What bad input gets: an error beside its field, nothing stored, never a 500."""

from datetime import timedelta

import pytest
from django.test import Client

from jobs import operations
from jobs.models import Job, Queue, Worker
from tests import farm
from tests.looped import looped
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


class TestSubmitting:
    def test_a_chat_job_goes_to_its_page(self, browse: Browse, little_farm: Farm) -> None:
        answer = browse(little_farm.ada).post("/jobs/new/?kind=chat", {"prompt": "Why?"})
        job = Job.objects.latest("pk")
        assert (302, f"/jobs/{job.pk}/") == (answer.status_code, answer["Location"])
        assert (job.kind, job.owner and job.owner.username, job.group, Job.objects.get(pk=job.pk).payload) == (
            "chat",
            "ada",
            None,
            {"prompt": "Why?"},
        )

    def test_more_is_taken_along(self, browse: Browse, little_farm: Farm) -> None:
        group = little_farm.ada.groups.get()
        form = {"prompt": "A heron", "group": group.pk, "delay_min": "90", "unique_key": "heron"}
        browse(little_farm.ada).post("/jobs/new/?kind=image", form)
        job = Job.objects.latest("pk")
        assert ("image", group, "heron") == (job.kind, job.group, job.unique_key)
        assert timedelta(minutes=89) < job.run_at - job.created_at <= timedelta(minutes=90)

    def test_a_conflict_replaces_the_one_that_waits(self, browse: Browse, little_farm: Farm) -> None:
        ada = browse(little_farm.ada)
        for prompt in ("A heron", "A crane"):
            form = {"prompt": prompt, "unique_key": "bird", "on_conflict": "replace"}
            assert ada.post("/jobs/new/?kind=image", form).status_code == 302
        job = Job.objects.whole().get(unique_key="bird")
        assert (job.payload["prompt"], job.replaced_at is not None) == ("A crane", True)
        page = ada.get(f"/jobs/{job.pk}/").content.decode()
        assert "by a newer one of its key" in page

    @pytest.mark.parametrize("text", ["[1, 2.5, null]", '"only a text"', "{}", "0"])
    def test_any_json_is_a_payload(self, browse: Browse, little_farm: Farm, text: str) -> None:
        form = {"kind_name": "chat", "payload_text": text}
        answer = browse(little_farm.ada).post("/jobs/new/?kind=other", form)
        assert answer.status_code == 302
        page = browse(little_farm.ada).get(answer["Location"])
        assert page.status_code == 200

    @looped(
        ("tab", "form", "field"),
        [
            ("chat", {"prompt": ""}, "prompt"),
            ("chat", {"prompt": "   "}, "prompt"),
            ("chat", {"prompt": "a\x00b"}, "prompt"),
            ("chat", {"prompt": "x" * 100_001}, "prompt"),
            ("chat", {"prompt": "x", "group": "999999"}, "group"),
            ("chat", {"prompt": "x", "group": "no number"}, "group"),
            ("chat", {"prompt": "x", "delay_min": "-1"}, "delay_min"),
            ("chat", {"prompt": "x", "delay_min": "1e400"}, "delay_min"),
            ("chat", {"prompt": "x", "delay_min": "99999999999999999999"}, "delay_min"),
            ("chat", {"prompt": "x", "unique_key": "k" * 201}, "unique_key"),
            ("chat", {"prompt": "x", "unique_key": "tab\tbed"}, "unique_key"),
            ("chat", {"prompt": "x", "unique_key": "taken"}, "unique_key"),
            ("chat", {"prompt": "x", "on_conflict": "after"}, "on_conflict"),
            ("chat", {"prompt": "x", "on_conflict": "last", "unique_key": "k"}, "on_conflict"),
            ("other", {"kind_name": "no-such", "payload_text": "{}"}, "kind_name"),
            ("other", {"kind_name": "chat", "payload_text": "{"}, "payload_text"),
            ("other", {"kind_name": "chat", "payload_text": "NaN"}, "payload_text"),
            ("other", {"kind_name": "chat", "payload_text": "1e400"}, "payload_text"),
            ("other", {"kind_name": "chat", "payload_text": '"\\u0000"'}, "payload_text"),
            ("other", {"kind_name": "chat", "payload_text": '"\\ud800"'}, "payload_text"),
            ("other", {"kind_name": "chat", "payload_text": "[" * 5000}, "payload_text"),
            ("other", {"kind_name": "chat", "payload_text": "[" * 102 + "]" * 102}, "payload_text"),
            ("other", {"kind_name": "chat", "payload_text": f'"{"x" * 1_000_000}"'}, "payload_text"),
        ],
        rolled_back=True,
    )
    def test_an_error_stands_beside_its_field(
        self, browse: Browse, little_farm: Farm, tab: str, form: dict[str, str], field: str
    ) -> None:
        operations.submit("chat", {}, unique_key="taken", owner=little_farm.ada)
        before = Job.objects.count()
        answer = browse(little_farm.ada).post(f"/jobs/new/?kind={tab}", form)
        assert (422, [field]) == (answer.status_code, list(answer.context["form"].errors))
        assert before == Job.objects.count()
        assert f'id="id_{field}_error"' in answer.content.decode()

    def test_a_group_that_is_not_theirs_is_no_choice(self, browse: Browse, little_farm: Farm) -> None:
        group = little_farm.ada.groups.get()
        answer = browse(little_farm.eve).post("/jobs/new/?kind=chat", {"prompt": "x", "group": group.pk})
        assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["group"])

    @pytest.mark.parametrize("tab", ["", "nonsense", "<script>"])
    def test_an_unknown_tab_is_the_first(self, browse: Browse, little_farm: Farm, tab: str) -> None:
        answer = browse(little_farm.ada).get("/jobs/new/", {"kind": tab})
        assert (answer.status_code, answer.context["tab"].code) == (200, "chat")


class TestFiltering:
    @looped(
        "address",
        [
            "?status=nonsense",
            "?before=x",
            "?before=0",
            "?before=-5",
            "?before=99999999999999999999999",
            "?kind=none",
            "?queue=%00",
            f"?worker={'w' * 101}",
            f"?owner={'o' * 151}",
            "?worker=%00",
        ],
        rolled_back=True,
    )
    def test_nonsense_is_an_error_in_the_page(self, browse: Browse, little_farm: Farm, address: str) -> None:
        answer = browse(little_farm.oscar).get(f"/jobs/{address}")
        assert (answer.status_code, b"errorlist" in answer.content) == (422, True)

    @pytest.mark.parametrize(
        "address", ["?status=", "?before=", "?nothing=1", "?worker=%ff", "?before=9223372036854775807"]
    )
    def test_what_does_no_harm_is_let_be(self, browse: Browse, little_farm: Farm, address: str) -> None:
        assert browse(little_farm.oscar).get(f"/jobs/{address}").status_code == 200


class TestWorkers:
    def test_a_members_worker_is_scoped_to_them(self, browse: Browse, little_farm: Farm) -> None:
        form = {"name": "laptop", "queues": "chat, image", "scope": "everybody"}
        answer = browse(little_farm.eve).post("/workers/connect/", form)
        worker = Worker.objects.get(name="laptop")
        assert (answer.status_code, worker.owner and worker.owner.username, worker.queues) == (
            200,
            "eve",
            ["chat", "image"],
        )

    def test_the_key_is_shown_once_and_opens(self, browse: Browse, little_farm: Farm) -> None:
        client = browse(little_farm.eve)
        answer = client.post("/workers/connect/", {"name": "laptop", "queues": "chat"})
        worker = Worker.objects.get(name="laptop")
        key = answer.context["key"]
        assert worker == operations.authenticate(key)
        assert (
            f"JOBFARM_KEY={key} python -m jobfarm_worker --url http://testserver --handler chat"
            in answer.content.decode()
        )
        assert "no-store" in answer["Cache-Control"]
        assert key not in client.get(f"/workers/{worker.pk}/").content.decode()

    def test_whoever_runs_the_farm_may_serve_everybody(self, browse: Browse, little_farm: Farm) -> None:
        client = browse(little_farm.oscar)
        client.post("/workers/connect/", {"name": "rack", "queues": "chat", "steals": "*", "scope": "everybody"})
        client.post("/workers/connect/", {"name": "mine", "queues": "chat", "scope": "own"})
        made = {worker.name: (worker.owner_id, worker.steals) for worker in Worker.objects.exclude(name="w1")}
        assert {"rack": (None, ["*"]), "mine": (little_farm.oscar.pk, [])} == made

    @looped(
        ("form", "field"),
        [
            ({"name": "", "queues": "chat"}, "name"),
            ({"name": "w" * 101, "queues": "chat"}, "name"),
            ({"name": "w\x00", "queues": "chat"}, "name"),
            ({"name": "w", "queues": ""}, "queues"),
            ({"name": "w", "queues": "UPPER"}, "queues"),
            ({"name": "w", "queues": "*"}, "queues"),
            ({"name": "w", "queues": "chat", "steals": "ok, ../etc"}, "steals"),
        ],
        rolled_back=True,
    )
    def test_an_error_stands_beside_its_field(
        self, browse: Browse, little_farm: Farm, form: dict[str, str], field: str
    ) -> None:
        answer = browse(little_farm.eve).post("/workers/connect/", form)
        assert (422, [field]) == (answer.status_code, list(answer.context["form"].errors))
        assert Worker.objects.count() == 1


class TestQueues:
    @pytest.mark.parametrize(
        ("form", "ceiling"),
        [("7", 7), ("0", 0), ("", None), ("-1", 5), ("10001", 5), ("x", 5), ("1e3", 5), ("9" * 30, 5)],
    )
    def test_a_ceiling_is_a_small_number_or_none(
        self, browse: Browse, little_farm: Farm, form: str, ceiling: int | None
    ) -> None:
        operations.set_ceiling("chat", 5)
        answer = browse(little_farm.oscar).post("/queues/chat/ceiling/", {"ceiling": form})
        assert ceiling == Queue.objects.get(pk="chat").ceiling
        assert (302 if ceiling != 5 else 422) == answer.status_code


class TestCanceling:
    def test_says_truthfully_what_it_came_to(self, browse: Browse, little_farm: Farm) -> None:
        client = browse(little_farm.ada)
        runs, waits = little_farm.job, operations.submit("image", {}, owner=little_farm.ada)
        claimed = farm.claim_one(little_farm.worker)
        assert runs.pk == claimed.id
        again = operations.submit("chat", {}, owner=little_farm.ada)
        operations.release(little_farm.worker, again.pk, farm.claim_one(little_farm.worker).lease)
        form = {name: _shown(client, job) for name, job in {"runs": runs, "waits": waits, "again": again}.items()}
        assert form == {
            "runs": "Canceled while it ran: its worker is notified, and its result will be refused.",
            "waits": "Canceled before it started: no worker ever ran it.",
            "again": "Canceled before its next attempt: an earlier one ran, no further one will.",
        }
        assert _shown(client, runs) == "Too late: it has already ended as canceled."

    def test_with_htmx_stays_on_the_page(self, browse: Browse, little_farm: Farm) -> None:
        address = f"/jobs/{little_farm.job.pk}/cancel/"
        answer = browse(little_farm.ada).post(address, headers={"HX-Request": "true"})
        assert (answer.status_code, answer.content) == (204, b"")
        assert "before it started" in answer["HX-Trigger"]


class TestTryingAgain:
    def test_makes_a_new_job_that_points_at_the_old_one(self, browse: Browse, little_farm: Farm) -> None:
        operations.cancel(little_farm.job.pk, by=None)
        answer = browse(little_farm.ada).post(f"/jobs/{little_farm.job.pk}/retry/")
        again = Job.objects.latest("pk")
        assert (f"/jobs/{again.pk}/", little_farm.job.pk) == (answer["Location"], again.retry_of_id)

    def test_is_refused_while_a_twin_lives(self, browse: Browse, little_farm: Farm) -> None:
        job = operations.submit("image", {}, owner=little_farm.ada, unique_key="one")
        operations.cancel(job.pk, by=None)
        operations.submit("image", {}, owner=little_farm.ada, unique_key="one")
        answer = browse(little_farm.ada).post(f"/jobs/{job.pk}/retry/", follow=True)
        assert "unique key" in str(next(iter(answer.context["messages"])))
        assert not Job.objects.filter(retry_of=job).exists()


def _shown(client: Client, job: Job) -> str:
    answer = client.post(f"/jobs/{job.pk}/cancel/", follow=True)
    return str(next(iter(answer.context["messages"])))

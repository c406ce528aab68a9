"""Who may see and do what: one row for each page and button."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client

from jobs import operations
from jobs.models import Queue, Share
from tests import farm
from tests.looped import looped
from tests.pages.edges.conftest import Browse, Farm

PEOPLE = ("nobody", "eve", "bob", "ada", "oscar")

# What each of PEOPLE gets. "in": sent to the log-in.
LOOKS = {
    "/": (200, 200, 200, 200, 200),
    "/jobs/": ("in", 200, 200, 200, 200),
    "/jobs/new/": ("in", 200, 200, 200, 200),
    "/jobs/{job}/": ("in", 404, 200, 200, 200),
    "/jobs/{job}/files/x.png": ("in", 404, 404, 404, 404),
    "/jobs/{job}/output/1": ("in", 404, 404, 404, 404),
    "/jobs/999999/": ("in", 404, 404, 404, 404),
    "/jobs/9223372036854775808/": (404, 404, 404, 404, 404),
    "/jobs/shared/{token}/": (200, 200, 200, 200, 200),
    "/jobs/shared/nothing/": (404, 404, 404, 404, 404),
    "/queues/": ("in", 200, 200, 200, 200),
    "/queues/chat/": ("in", 200, 200, 200, 200),
    "/queues/none/": ("in", 404, 404, 404, 404),
    "/workers/": ("in", 200, 200, 200, 200),
    "/workers/{worker}/": ("in", 404, 404, 404, 200),
    "/workers/{adas}/": ("in", 404, 404, 200, 200),
    "/jobs/{job}/cancel/": ("in", 405, 405, 405, 405),
}
ACTIONS = {
    "/jobs/{job}/cancel/": ("in", 404, "refused", "done", "done"),
    "/jobs/{job}/retry/": ("in", 404, "refused", "refused", "refused"),
    "/jobs/{job}/share/": ("in", 404, "refused", "done", "done"),
    "/jobs/{job}/unshare/": ("in", 404, "refused", "done", "done"),
    "/queues/chat/pause/": ("in", 403, 403, 403, "done"),
    "/queues/chat/resume/": ("in", 403, 403, 403, "done"),
    "/queues/chat/ceiling/": ("in", 403, 403, 403, "done"),
    "/queues/chat/order/": ("in", 403, 403, 403, "done"),
    "/queues/none/pause/": ("in", 403, 403, 403, 404),
    "/workers/{worker}/rotate/": ("in", 404, 404, 404, 200),
    "/workers/{worker}/revoke/": ("in", 404, 404, 404, "done"),
    "/workers/{adas}/rotate/": ("in", 404, 404, 200, 200),
    "/workers/{adas}/revoke/": ("in", 404, 404, "done", "done"),
}


def _cases(table: Mapping[str, tuple[object, ...]]) -> list[tuple[str, str, object]]:
    return [(path, who, meant) for path, row in table.items() for who, meant in zip(PEOPLE, row, strict=True)]


def _address(path: str, little_farm: Farm) -> str:
    adas = farm.worker("adas", "chat", owner=little_farm.ada)
    token = operations.share(little_farm.job.pk, by=little_farm.ada).token
    return path.format(job=little_farm.job.pk, worker=little_farm.worker.pk, adas=adas.pk, token=token)


class TestLooking:
    @looped(("path", "meant"), LOOKS.items(), ids=LOOKS, rolled_back=True)
    def test_shows_what_is_theirs_and_hides_the_rest(
        self, browse: Browse, little_farm: Farm, path: str, meant: tuple[object, ...]
    ) -> None:
        """Looking changes nothing, so all look at one farm."""
        address = _address(path, little_farm)
        users = [None if who == "nobody" else little_farm.person(who) for who in PEOPLE]
        answers = [browse(user).get(address) for user in users]
        assert tuple(map(_seen, answers)) == meant


def _seen(answer: Any) -> object:
    """The status of an answer; "in" where it leads to the log-in."""
    leads_in = answer.status_code == 302 and answer["Location"].startswith("/accounts/login/")
    return "in" if leads_in else answer.status_code


class TestDoing:
    @looped(("path", "who", "meant"), _cases(ACTIONS), rolled_back=True)
    def test_lets_them_do_what_is_theirs_to_do(
        self, browse: Browse, little_farm: Farm, path: str, who: str, meant: object
    ) -> None:
        user = None if who == "nobody" else little_farm.person(who)
        address = _address(path, little_farm)
        before = _state(little_farm)
        client = browse(user)
        answer = client.post(address, {"ceiling": "3", "fair": "owner"})
        if meant == "in":
            assert answer["Location"].startswith("/accounts/login/")
        elif meant in {"done", "refused"}:
            assert (302, meant) == (answer.status_code, _mood(client, answer["Location"]))
        else:
            assert meant == answer.status_code
        if meant not in {"done", 200}:
            assert before == _state(little_farm)

    @looped("path", list(ACTIONS), rolled_back=True)
    def test_needs_a_csrf_token(self, little_farm: Farm, path: str) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(little_farm.oscar)
        address = _address(path, little_farm)
        before = _state(little_farm)
        assert client.post(address).status_code == 403
        assert before == _state(little_farm)

    def test_staff_whose_list_of_workers_leads_to_pages_with_jobs_are_refused_these(
        self, browse: Browse, little_farm: Farm
    ) -> None:
        """They know that it is there: a page that says there is no such worker would be a lie."""
        lister = farm.user("lister", is_staff=True)
        lister.user_permissions.add(Permission.objects.get(codename="view_worker"))
        answer = browse(lister).get(f"/admin/jobs/worker/{little_farm.worker.pk}/change/", follow=True)
        assert (answer.redirect_chain[-1][0], answer.status_code) == (f"/workers/{little_farm.worker.pk}/", 403)

    def test_an_inactive_person_sees_nothing(self, browse: Browse, little_farm: Farm) -> None:
        client = browse(little_farm.ada)
        User.objects.filter(pk=little_farm.ada.pk).update(is_active=False)
        assert client.get(f"/jobs/{little_farm.job.pk}/").status_code == 302


def _mood(client: Client, location: str) -> str:
    """What the message at the head of the next page says."""
    text = client.get(location.partition("#")[0]).content.decode()
    return "refused" if "notice error" in text else "done"


def _state(little_farm: Farm) -> tuple[object, ...]:
    little_farm.job.refresh_from_db()
    little_farm.worker.refresh_from_db()
    shares = Share.objects.count()
    queue = Queue.objects.values_list("paused_at", "ceiling").get(pk="chat")
    key = (little_farm.worker.key_hash, little_farm.worker.revoked_at)
    return little_farm.job.status, shares, queue, key

"""Bulk actions by the API: counted, begun, followed, stopped and undone, with the rights of the pages."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Group, User

from accounts import operations as accounts
from jobs.models import Bulk, Job
from scheduling import operations as scheduling
from tests import farm
from tests.api.edges import callers
from tests.looped import looped
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/api/v1/bulk-actions"
Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(client: httpx.Client) -> Call:
    """A call of ada's, and its answer."""

    def call(path: str = "", *, status: int = 200, key: str = "", **body: Any) -> dict[str, Any]:
        headers = {"Idempotency-Key": key} if key else {}
        answer = client.post(f"{PATH}{path}", headers=headers, json=body or None)
        assert answer.status_code == status, answer.text
        document: dict[str, Any] = answer.json()
        return document

    return call


def _ended(client: httpx.Client, number: int) -> dict[str, Any]:
    """The bulk action once a cluster has done it."""
    scheduling.run_due()
    document: dict[str, Any] = client.get(f"{PATH}/{number}").json()
    return document


@pytest.fixture(autouse=True)
def _jobs(ada: User) -> None:
    farm.submit(3, "chat", owner=ada, tags=["nightly"])
    farm.submit(2, "chat", owner=ada)
    farm.submit(2, "chat", owner=farm.user("bob"), tags=["nightly"])


def test_all_jobs_of_a_tag_that_are_yours_are_counted_and_then_canceled_and_submitted_again(
    client: httpx.Client, call: Call
) -> None:
    counted = call(status=201, action="cancel", filters={"tag": "nightly"})
    assert (counted["phase"], counted["matched"], counted["by"]) == ("ready", 3, "ada")
    assert set(farm.statuses()) == {"pending"}
    assert call(f"/{counted['id']}/begin")["phase"] == "running"
    done = _ended(client, counted["id"])
    assert (done["phase"], done["changed"], done["results"]) == ("done", 3, {"canceled before start": 3})
    assert Job.objects.ended("canceled").count() == 3
    undoing = call(f"/{counted['id']}/undo")
    assert (undoing["undoes"], _ended(client, undoing["id"])["changed"]) == (counted["id"], 3)
    assert client.get(f"{PATH}/{counted['id']}").json()["undone_by"] == undoing["id"]
    assert [one["id"] for one in client.get(PATH).json()["bulk_actions"]] == [undoing["id"], counted["id"]]


@looped(("bound", "phase"), [(3, "done"), (2, "ready")], rolled_back=False)
def test_it_begins_by_itself_where_no_more_match_than_it_may(
    client: httpx.Client, call: Call, bound: int, phase: str
) -> None:
    made = call(status=201, action="change_priority", value=-bound, filters={"tag": "nightly"}, begin_up_to=bound)
    assert made["phase"] == "counting"
    assert _ended(client, made["id"])["phase"] == phase
    assert Job.objects.filter(priority=-bound).count() == (3 if phase == "done" else 0)


def test_a_start_that_is_sent_again_makes_no_second_one(client: httpx.Client, call: Call) -> None:
    first, again = (call(status=201, key="one", action="cancel", filters={"tag": "nightly"}) for _ in range(2))
    assert first["id"] == again["id"] == Bulk.objects.get().pk
    other = call(status=422, key="one", action="cancel", filters={})
    assert other["error"] == "idempotency_key_reused"


def test_one_that_is_stopped_does_no_more(client: httpx.Client, call: Call) -> None:
    made = call(status=201, action="cancel", filters={"ids": [Job.objects.latest("pk").pk - 2], "status": "pending"})
    call(f"/{made['id']}/stop")
    assert call(f"/{made['id']}/begin")["phase"] == "stopped"
    assert _ended(client, made["id"])["why"] == "stopped by ada"
    assert set(farm.statuses()) == {"pending"}


@looped(
    "body",
    [
        {"action": "undo", "filters": {}},
        {"action": "cancel"},
        {"action": "cancel", "filters": {"tag": "a b"}},
        {"action": "cancel", "filters": {"statsu": "failed"}},
        {"action": "cancel", "filters": {"status": "lost"}},
        {"action": "cancel", "filters": {"since": "yesterday"}},
        {"action": "change_queue", "filters": {}, "value": "nowhere"},
        {"action": "change_priority", "filters": {}, "value": 500},
        {"action": "cancel", "filters": {}, "begin_up_to": 0},
    ],
)
def test_what_makes_no_sense_is_refused(call: Call, body: dict[str, Any]) -> None:
    call(status=422, **body)
    assert not Bulk.objects.exists()


def test_others_neither_see_nor_stop_it_and_a_token_that_reads_begins_none(
    server: Server, ada: User, call: Call
) -> None:
    made = call(status=201, action="cancel", filters={"tag": "nightly"})
    stranger = callers.client(server, User.objects.get(username="bob"))
    assert stranger.get(f"{PATH}/{made['id']}").status_code == 404
    assert stranger.post(f"{PATH}/{made['id']}/begin").status_code == 404
    _, token = accounts.create_token(ada, name="reader", scopes=["read"])
    with httpx.Client(base_url=server.url, headers=callers.bearer(token)) as reader:
        assert reader.get(f"{PATH}/{made['id']}").status_code == 200
        assert reader.post(f"{PATH}/{made['id']}/begin").status_code == 403
        assert reader.post(PATH, json={"action": "cancel", "filters": {}}).status_code == 403


def test_jobs_of_a_group_are_seen_and_not_changed(call: Call, ada: User) -> None:
    club = Group.objects.create(name="club")
    for person in User.objects.all():
        person.groups.add(club)
    farm.submit(1, "chat", owner=User.objects.get(username="bob"), group=club, tags=["club"])
    assert call(status=201, action="cancel", filters={"tag": "club"})["matched"] == 0


def test_what_is_wrong_with_filters_is_named_as_theirs(call: Call) -> None:
    missing = call(status=422, action="cancel")
    assert missing["message"] == "filters: field required."
    misspelled = call(status=422, action="cancel", filters={"tga": "nightly"})
    assert misspelled["message"] == "filters.tga: there is no such field."


@looped("path", ["", "/begin", "/stop", "/undo"])
def test_one_that_does_not_exist_is_named_as_what_it_is(client: httpx.Client, path: str) -> None:
    answer = client.request("POST" if path else "GET", f"{PATH}/{10**9}{path}")
    assert (answer.status_code, answer.json()["message"]) == (404, "There is no such bulk action.")

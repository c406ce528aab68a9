"""The outbox over the network: what a program of its owner may do, and sees."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.test import Client
from pytest_django import Settings
from standardwebhooks.webhooks import Webhook

from accounts import operations as accounts
from outbox import operations
from outbox.models import Endpoint, Message
from outbox.operations import endpoints
from outbox.queries import Replay
from scheduling import operations as scheduling
from scheduling.models import Due
from tests import farm
from tests.outbox.receivers import HERE, receiver
from tests.outbox.support import drain, endpoint

pytestmark = pytest.mark.django_db
AT = "/api/v1/outbox"
NEW = {"name": "mine", "url": "https://hooks.example/x", "events": ["job.failed"], "kinds": ["image"]}
Call = Callable[..., Any]


def program(of: User) -> Client:
    _, key = accounts.create_token(of, name="program")
    return Client(headers={"Authorization": f"Bearer {key}"})


@pytest.fixture
def ann() -> User:
    return farm.user("ann")


@pytest.fixture
def call(ann: User) -> Call:
    """A call of ann's program, answered with this status; its JSON."""
    client = program(ann)

    def ask(method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = getattr(client, method)(f"{AT}{path}", body, content_type="application/json")
        assert answer.status_code == status, answer.content
        return answer.json()

    return ask


def dead(*, to: Endpoint, count: int, event_type: str = "queue.paused") -> None:
    for number in range(count):
        operations.record_all([operations.NewEvent(type=event_type, subject=f"queue/{number}", data={})], only=to.pk)
    Message.objects.filter(endpoint=to).update(status="dead", next_attempt_at=None, ended_at=Now())


class TestAnEndpoint:
    def test_is_made_with_a_secret_that_no_later_answer_has(self, call: Call, ann: User) -> None:
        made = call("post", "/endpoints", NEW, status=201)
        row = Endpoint.objects.get()
        assert [made["secret"]] == endpoints.secrets_of([row.pk])[row.pk]
        assert (row.owner, row.events, row.kinds) == (ann, ["job.failed"], ["image"])
        shown = call("get", f"/endpoints/{row.pk}")
        assert "secret" not in shown
        assert shown == {name: value for name, value in made.items() if name != "secret"}
        assert made["secret"] not in str(call("get", "/endpoints"))

    def test_is_changed_where_the_call_says_so_and_stays_as_it_was_elsewhere(self, call: Call) -> None:
        pk = call("post", "/endpoints", NEW | {"per_minute": 5}, status=201)["id"]
        changed = call("patch", f"/endpoints/{pk}", {"per_minute": None, "with_result": True})
        assert (changed["per_minute"], changed["with_result"]) == (None, True)
        assert (changed["name"], changed["events"], changed["kinds"]) == ("mine", ["job.failed"], ["image"])

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            pytest.param({"url": "ftp://x.example/"}, "bad_url", id="ftp"),
            pytest.param({"url": "https://u:p@x.example/"}, "bad_url", id="a user"),
            pytest.param({"events": ["queue.*"]}, "bad_endpoint", id="events of the farm"),
            pytest.param({"events": []}, "invalid", id="no events"),
            pytest.param({"events": ["job.burned"]}, "invalid", id="an unknown event"),
            pytest.param({"name": "  "}, "bad_endpoint", id="a blank name"),
            pytest.param({"per_minute": 0}, "invalid", id="none a minute"),
            pytest.param({"colour": "red"}, "invalid", id="an unknown field"),
        ],
    )
    def test_that_cannot_be_is_refused_with_the_reason(self, call: Call, change: dict[str, Any], code: str) -> None:
        assert call("post", "/endpoints", NEW | change, status=422)["error"] == code
        pk = call("post", "/endpoints", NEW, status=201)["id"]
        assert call("patch", f"/endpoints/{pk}", change, status=422)["error"] == code
        assert Endpoint.objects.get().url == NEW["url"]

    def test_gets_another_secret_while_the_first_signs_along_for_so_long(self, call: Call) -> None:
        made = call("post", "/endpoints", NEW, status=201)
        rotated = call("post", f"/endpoints/{made['id']}/rotate", {"overlap_s": 3600})
        assert endpoints.secrets_of([made["id"]])[made["id"]] == [rotated["secret"], made["secret"]]
        newest, first = rotated["secrets"]
        assert newest["retired_at"] is None
        assert first["retired_at"] is not None
        last = call("post", f"/endpoints/{made['id']}/rotate", {"overlap_s": 0})
        assert endpoints.secrets_of([made["id"]])[made["id"]] == [last["secret"]]
        refused = call("post", f"/endpoints/{made['id']}/rotate", {"secret": "whsec_short"}, status=422)
        assert (refused["error"], refused["field"]) == ("bad_endpoint", "secret")

    def test_is_paused_resumed_disabled_and_deleted(self, call: Call, ann: User) -> None:
        pk = call("post", "/endpoints", NEW, status=201)["id"]
        for act, status in (("pause", "paused"), ("resume", "active"), ("disable", "disabled")):
            assert call("post", f"/endpoints/{pk}/{act}")["status"] == status
        assert call("post", f"/endpoints/{pk}/test") == {"messages": 0}
        assert call("delete", f"/endpoints/{pk}") == {"id": pk, "deleted": True}
        assert call("get", f"/endpoints/{pk}", status=404)["error"] == "not_found"

    def test_is_one_of_so_many(self, call: Call, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "ENDPOINTS_PER_OWNER": 1}
        call("post", "/endpoints", NEW, status=201)
        assert call("post", "/endpoints", NEW, status=409)["error"] == "too_many_endpoints"

    def test_of_the_whole_farm_is_made_by_operators(self, call: Call) -> None:
        assert call("post", "/endpoints", NEW | {"for_farm": True}, status=404)["error"] == "not_found"
        root = User.objects.create_superuser("root")
        body = NEW | {"for_farm": True, "events": ["*"]}
        made = program(root).post(f"{AT}/endpoints", body, content_type="application/json").json()
        assert made["owner"] is None

    def test_list_has_pages_and_nothing_of_others(self, call: Call, ann: User) -> None:
        mine = [endpoint(f"https://{n}.example/", owner=ann).pk for n in range(3)]
        endpoint("https://other.example/", owner=farm.user("eve"))
        first = call("get", "/endpoints?limit=2")
        assert [row["id"] for row in first["endpoints"]] == [mine[2], mine[1]]
        second = call("get", f"/endpoints?limit=2&cursor={first['next']}")
        assert ([row["id"] for row in second["endpoints"]], second["next"]) == ([mine[0]], None)
        assert call("get", "/endpoints?owner=eve", status=422)["error"] == "invalid"


class TestMessages:
    def test_are_filtered_and_have_pages(self, call: Call, ann: User) -> None:
        one, two = endpoint(owner=ann), endpoint("https://two.example/", owner=ann)
        dead(to=one, count=3)
        dead(to=two, count=1, event_type="queue.resumed")
        operations.send_test(one.pk, by=ann)
        endpoint("https://other.example/", owner=farm.user("eve"))

        def ids(query: str) -> list[int]:
            return [row["id"] for row in call("get", f"/messages?{query}")["messages"]]

        newest_first = list(Message.objects.order_by("-pk").values_list("pk", flat=True))
        assert ids("") == newest_first
        assert ids("status=dead") == newest_first[1:]
        assert ids("type=queue.resumed") == ids(f"endpoint={two.pk}") == [newest_first[1]]
        assert ids("subject=queue/2&status=dead") == [newest_first[2]]
        page = call("get", "/messages?limit=4")
        assert call("get", f"/messages?limit=4&cursor={page['next']}")["messages"][0]["id"] == newest_first[4]
        for wrong in ("status=lost", "type=job.burned", "endpoint=x", "limit=0", "after=1"):
            assert call("get", f"/messages?{wrong}", status=422)["error"] == "invalid"

    @pytest.mark.django_db(transaction=True)
    def test_have_their_attempts_and_are_replayed_under_the_same_id(
        self, call: Call, ann: User, settings: Settings
    ) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": HERE}
        with receiver(status=200) as there:
            there.body = b"thanks"
            made = call("post", "/endpoints", NEW | {"url": there.url()}, status=201)
            call("post", f"/endpoints/{made['id']}/test")
            pk = call("get", "/messages")["messages"][0]["id"]
            assert call("post", f"/messages/{pk}/replay", status=409)["error"] == "cannot_replay"
            drain()
            assert call("post", f"/messages/{pk}/replay")["status"] == "pending"
            drain()
        first, second = there.requests
        shown = call("get", f"/messages/{pk}")
        assert first.headers["webhook-id"] == second.headers["webhook-id"] == shown["webhook_id"]
        assert [one["number"] for one in shown["history"]] == [2, 1]
        assert {one["answer"] for one in shown["history"]} == {"thanks"}
        assert first.body == shown["body"].encode()
        assert Webhook(made["secret"]).verify(first.body, dict(first.headers))["type"] == "outbox.test"

    def test_of_others_are_not_there(self, call: Call) -> None:
        eve = farm.user("eve")
        theirs = endpoint(owner=eve)
        dead(to=theirs, count=1)
        begun = operations.replay_matching(operations.Filter(), by=eve)
        message = Message.objects.get().pk
        assert begun is not None
        assert call("get", "/messages")["messages"] == []
        for method, path in (
            ("get", f"/messages/{message}"), ("post", f"/messages/{message}/replay"),
            ("get", f"/endpoints/{theirs.pk}"), ("post", f"/endpoints/{theirs.pk}/rotate"),
            ("delete", f"/endpoints/{theirs.pk}"), ("get", f"/messages/{2**70}"),
            ("get", f"/replays/{begun.first}"), ("post", f"/replays/{begun.first}/stop"),
        ):  # fmt: skip
            body: Any = {} if method == "post" else None
            assert call(method, path, body, status=404)["error"] == "not_found", path
        assert call("post", "/replays", {}, status=201)["id"] is None


@pytest.mark.django_db(transaction=True)
class TestAReplayOfMany:
    def test_is_counted_first_then_begun_and_followed(self, call: Call, ann: User) -> None:
        one, two = endpoint(owner=ann), endpoint("https://two.example/", owner=ann)
        dead(to=one, count=2)
        dead(to=two, count=1)
        wanted = {"endpoint": one.pk, "status": "dead"}
        counted = call("post", "/replays", wanted | {"dry_run": True}, status=201)
        assert (counted["id"], counted["matched"]) == (None, 2)
        assert not Message.objects.filter(status="pending").exists()
        begun = call("post", "/replays", wanted, status=201)
        assert (begun["matched"], begun["replayed"], begun["is_over"]) == (2, 0, False)
        scheduling.run_due()
        done = call("get", f"/replays/{begun['id']}")
        assert (done["replayed"], done["is_over"], done["status"]) == (2, True, "success")
        assert set(Message.objects.filter(status="pending").values_list("endpoint", flat=True)) == {one.pk}
        assert call("post", f"/replays/{begun['id']}/stop", status=409)["error"] == "cannot_stop"

    def test_of_an_account_that_is_not_active_any_more_goes_no_further_and_says_so(
        self, call: Call, ann: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("outbox.operations.replays.BATCH", 2)
        dead(to=endpoint(owner=ann), count=5)
        begun = operations.replay_matching(operations.Filter(), by=ann)
        assert begun is not None
        scheduling.run_due()
        User.objects.filter(pk=ann.pk).update(is_active=False)
        Due.objects.update(next_at=Now(), run_at=Now())
        scheduling.run_due()
        over = Replay.find(begun.first)
        assert over is not None
        assert (over.is_over, over.status, over.handled) == (True, "failed", 2)
        assert "The account that started it is no longer active." in (over.error or "")
        assert Message.objects.filter(status="pending").count() == 2

    def test_is_stopped_between_two_batches(self, call: Call, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("outbox.operations.replays.BATCH", 2)
        dead(to=endpoint(owner=ann), count=5)
        begun = call("post", "/replays", {}, status=201)
        scheduling.run_due()
        stopped = call("post", f"/replays/{begun['id']}/stop")
        assert (stopped["replayed"], stopped["is_over"], stopped["status"]) == (2, True, "canceled")
        assert Message.objects.filter(status="pending").count() == 2


def test_a_member_begins_so_many_replays_and_another_their_own(call: Call, ann: User) -> None:
    dead(to=endpoint(owner=ann), count=1)
    ended = {"status": "dead", "next_attempt_at": None, "ended_at": Now()}
    for _ in range(5):
        Message.objects.update(**ended)
        call("post", "/replays", {"status": "dead"}, status=201)
    Message.objects.update(**ended)
    assert call("post", "/replays", {"status": "dead"}, status=429)["error"] == "rate_limited"
    page = Client()
    page.force_login(ann)
    at = f"/outbox/{Endpoint.objects.get().pk}/replay/"
    assert "Too many requests: try again in" in page.post(at, {"status": "dead"}, follow=True).content.decode()
    bob = farm.user("bob")
    dead(to=endpoint("https://bob.example/", owner=bob), count=1)
    answer = program(bob).post(f"{AT}/replays", {"status": "dead"}, content_type="application/json")
    assert answer.status_code == 201

"""The inbox: what its pages show, filter and escape, and what replaying does."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models import F
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from scheduling.models import ScheduledFunction
from tests.webhooks.inbox.support import keep_one, new, pass_time, receive
from tests.webhooks.pages.conftest import Handler
from webhooks import operations
from webhooks.domain.deliveries import Source
from webhooks.models import Activity, Delivery, Refusal, SandboxTelemetry
from webhooks.operations import ingest

pytestmark = pytest.mark.usefixtures("transactional_db")

NASTY = "<script>alert(1)</script>"
SAFE = "&lt;script&gt;alert(1)&lt;/script&gt;"


def page(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, url
    return answer.content.decode()


def rows(client: Client, query: str) -> list[int]:
    """The deliveries that a page of the inbox lists, by their number."""
    found = page(client, f"/inbox/?{query}").split('data-key="d')[1:]
    return [int(part.partition('"')[0]) for part in found]


def break_down(event: object) -> str | None:
    raise ValueError(NASTY)


class TestHostileText:
    def test_is_escaped_everywhere(self, operator: Client, handle: Callable[[str, str, Handler], None]) -> None:
        handle("github", NASTY, break_down)
        bad = receive({"title": NASTY, NASTY: [NASTY]}, delivery_id=NASTY, event_type=NASTY)
        Delivery.objects.filter(pk=bad.pk).update(headers={"user-agent": NASTY, NASTY: "x"}, sandbox=NASTY)
        pass_time()
        names = [NASTY] * 2
        ingest.count_refusals(
            [ingest.Refused(source=Source.GITHUB, reason=NASTY, address=None, size=1, header_names=names)]
        )
        operations.add(Source.GITHUB, name=NASTY)
        operations.create_token(NASTY)
        Activity.objects.create(
            delivery_id=bad.pk, n=0, source="github", at=bad.received_at, actor=NASTY, verb=NASTY, object=NASTY,
            kind="githubissue", resource=NASTY,
        )  # fmt: skip
        operations.replay(bad.pk)
        urls = [
            "/inbox/", f"/inbox/{bad.pk}/", "/inbox/sources/", "/inbox/sources/github/", "/activity/",
            "/inbox/sources/sandbox_hooks/", f"/inbox/?text={NASTY}&event={NASTY}",
            f"/inbox/sources/github/send/?like={bad.pk}",
            f"/inbox/replays/new/?text={NASTY}", f"/activity/?text={NASTY}&kind=githubissue&resource={NASTY}",
            "/admin/webhooks/delivery/", "/admin/webhooks/activity/",
            "/admin/webhooks/refusal/", "/admin/webhooks/secret/",
        ]  # fmt: skip
        for url in urls:
            shown = page(operator, url)
            assert NASTY not in shown, url
            assert (SAFE in shown) or url == "/inbox/sources/", url

    def test_of_a_link_is_shown_and_not_followed(self, operator: Client) -> None:
        delivery = receive()
        Activity.objects.create(
            delivery_id=delivery.pk, n=0, source="github", at=delivery.received_at, actor="ada", verb="opened",
            object="#1", link="https://github.com/a/b/issues/1",
        )  # fmt: skip
        link = '<a href="https://github.com/a/b/issues/1" rel="noopener noreferrer nofollow">#1</a>'
        assert link in page(operator, "/activity/")
        assert link in page(operator, f"/inbox/{delivery.pk}/")


class TestTheList:
    def test_is_filtered_by_what_stands_in_the_address(self, operator: Client) -> None:
        first = receive({"repo": "sandcastle"}, delivery_id="a", event_type="push")
        second = receive({"type": "user.created"}, source=Source.CLERK, delivery_id="b", event_type="ping")
        pass_time()
        third = receive(delivery_id="c", event_type="push")
        assert rows(operator, "") == [third.pk, second.pk, first.pk]
        assert rows(operator, "source=clerk") == [second.pk]
        assert rows(operator, "event=push") == [third.pk, first.pk]
        assert rows(operator, "status=received") == [third.pk]
        assert rows(operator, "text=sandcastle") == [first.pk]
        assert rows(operator, "text=b") == [second.pk]
        assert rows(operator, "since=2100-01-01T00:00") == []
        assert rows(operator, "until=2100-01-01T00:00&source=github") == [third.pk, first.pk]
        assert rows(operator, f"before={third.pk}&source=github") == [first.pk]

    def test_says_all_that_a_person_may_have_to_see_to(self, operator: Client) -> None:
        fine, dead = receive(delivery_id="a"), receive(delivery_id="b")
        Delivery.objects.filter(pk=fine.pk).update(status="processed", ended_at=fine.received_at)
        Delivery.objects.filter(pk=dead.pk).update(status="dead", ended_at=dead.received_at, note="it broke")
        assert rows(operator, "status=trouble") == [dead.pk]
        assert "1 dead letter.</strong>" in page(operator, "/inbox/")

    @pytest.mark.parametrize(
        "query",
        ["before=x", "before=99999999999999999999", "before=-1", "source=paypal", "status=odd", "since=yesterday",
         "text=%00", "event=" + "x" * 300],
    )  # fmt: skip
    def test_says_which_filter_makes_no_sense_and_goes_on(self, operator: Client, query: str) -> None:
        delivery = receive()
        answer = operator.get(f"/inbox/?{query}")
        assert answer.status_code == 422
        shown = answer.content.decode()
        assert "errorlist" in shown
        assert f'data-key="d{delivery.pk}"' in shown

    @pytest.mark.parametrize("text", ["'", '"', "a & b |", "-", "(", "\\", "https://x.y/?a=b", "💥"])
    def test_takes_any_text_to_search_for(self, operator: Client, text: str) -> None:
        receive()
        assert operator.get("/inbox/", {"text": text}).status_code == 200

    def test_of_many_is_read_page_by_page_with_few_queries(
        self, operator: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        kept = operations.keep([new(delivery_id=f"d-{n}") for n in range(60)])
        ids = sorted((one.delivery for one in kept if one.delivery), reverse=True)
        with django_assert_max_num_queries(12):
            assert rows(operator, "") == ids[:50]
        older = f'href="/inbox/?source=github&amp;before={ids[49]}"'
        assert older in page(operator, "/inbox/?source=github")
        assert rows(operator, f"source=github&before={ids[49]}") == ids[50:]

    def test_of_a_span_of_time_is_read_page_by_page(self, operator: Client) -> None:
        """In the order in which they came, which is not quite that of their numbers."""
        kept = operations.keep([new(delivery_id=f"d-{n}") for n in range(60)])
        ids = sorted(one.delivery for one in kept if one.delivery)
        Delivery.objects.filter(pk=ids[0]).update(received_at=F("received_at") + timedelta(seconds=1))
        first = rows(operator, "since=2020-01-01T00:00")
        assert first == [ids[0], *sorted(ids[11:], reverse=True)]
        second = f"since=2020-01-01T00:00&before={first[-1]}"
        assert rows(operator, second) == sorted(ids[1:11], reverse=True)
        Delivery.objects.filter(pk=first[-1]).delete()
        assert rows(operator, second) == [ids[0], *sorted(ids[1:11], reverse=True)]

    def test_tells_of_sources_without_a_secret_and_of_those_that_cannot_be_read(self, operator: Client) -> None:
        row, _ = operations.add(Source.JIRA)
        shown = page(operator, "/inbox/")
        assert '<a href="/inbox/sources/github/">GitHub</a>' in shown
        assert '<a href="/inbox/sources/jira/">Jira</a>' not in shown
        type(row).objects.filter(pk=row.pk).update(sealed=b"sealed under another key")
        assert "Jira cannot deliver:" in page(operator, "/inbox/")

    def test_counts_what_was_refused_with_the_last_reason(self, operator: Client) -> None:
        for _ in range(3):
            ingest.count_refusals(
                [
                    ingest.Refused(
                        source=Source.STRIPE,
                        reason="too_old",
                        address="192.0.2.7",
                        size=10,
                        header_names=["stripe-signature"],
                    )
                ]
            )
        hour_ago = Refusal.objects.get()
        Refusal.objects.filter(pk=hour_ago.pk).update(hour=hour_ago.hour - timedelta(hours=1))
        ingest.count_refusals(
            [ingest.Refused(source=Source.STRIPE, reason="too_old", address="192.0.2.7", size=10, header_names=[])]
        )
        shown = page(operator, "/inbox/")
        assert shown.count("signed too long ago") == 1
        assert "from 192.0.2.7" in shown
        assert 'class="number">4</td>' in shown
        assert re.search(r'<span class="value">4</span>\s*<span class="name">refused in 24 hours</span>', shown)


class TestADelivery:
    def test_shows_attempts_errors_and_tracebacks(
        self, operator: Client, handle: Callable[[str, str, Handler], None]
    ) -> None:
        handle("github", "probe", break_down)
        delivery = receive()
        for _ in range(5):
            pass_time()
        shown = page(operator, f"/inbox/{delivery.pk}/")
        assert Delivery.objects.get().status == "dead"
        assert shown.count('data-key="a') == 5
        assert shown.count("<summary>Traceback</summary>") == 5
        assert f"ValueError: {SAFE}" in shown
        assert 'data-replayable="yes"' in shown

    def test_shows_what_it_wrote_and_leads_to_it(self, operator: Client) -> None:
        user = {"id": "user_1", "first_name": "Ada", "last_name": "L", "email_addresses": [], "updated_at": 1}
        body = {"type": "user.created", "data": {**user, "created_at": 1}, "timestamp": 1_700_000_000_000}
        delivery = receive(body, source=Source.CLERK, event_type="user.created")
        pass_time()
        assert Delivery.objects.get().status == "processed", Delivery.objects.get().note
        shown = page(operator, f"/inbox/{delivery.pk}/")
        assert '<a href="/activity/?kind=clerkuser&amp;resource=user_1">Ada L</a>' in shown
        feed = page(operator, "/activity/?kind=clerkuser&resource=user_1")
        assert "Activity of the Clerk user <strong>Ada L</strong>" in feed
        assert "/admin/webhooks/clerkuser/" in feed
        assert f'<a href="/inbox/{delivery.pk}/">#{delivery.pk}</a>' in feed

    def test_shows_json_that_folds_and_the_text_beside_it(self, operator: Client) -> None:
        delivery = receive({"a": {"b": [1, "two", None]}})
        shown = page(operator, f"/inbox/{delivery.pk}/")
        assert '<span class="key">&quot;a&quot;:</span>' in shown
        assert "{&quot;a&quot;: {&quot;b&quot;: [1, &quot;two&quot;, null]}}" in shown

    @pytest.mark.parametrize(
        ("body", "rendered"),
        [
            (b"<not json>", "&lt;not json&gt;"),
            (b"\xff\xfe\x00", r"\xff\xfe" + "\N{SYMBOL FOR NULL}"),
            (b'{"nul": "\x00"}', "nul"),
            (b"[" * 5000, "nested more than 100 deep"),
            (b'"' + b"x" * 2_000_000 + b'"', "larger than 1048576 bytes"),
            (b"", "Not shown as JSON"),
        ],
    )
    def test_shows_what_is_no_json_as_text(self, operator: Client, body: bytes, rendered: str) -> None:
        shown = page(operator, f"/inbox/{receive(body=body).pk}/")
        assert rendered in shown
        assert "\x00" not in shown
        assert len(shown) < 150_000

    def test_gives_the_bytes_as_they_came_to_save(self, operator: Client) -> None:
        delivery = receive(body=b"<script>alert(1)</script>\x00\xff")
        answer = operator.get(f"/inbox/{delivery.pk}/body")
        assert answer.content == b"<script>alert(1)</script>\x00\xff"
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["Content-Disposition"].startswith("attachment;")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"

    def test_that_wrote_much_is_shown_with_few_queries(
        self, operator: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        delivery = receive(source=Source.SANDBOX_TELEMETRY)
        at = delivery.received_at
        SandboxTelemetry.objects.bulk_create(
            SandboxTelemetry(external_id=f"t-{n}", at=at, script=f"box-{n}") for n in range(100)
        )
        Activity.objects.bulk_create(
            Activity(
                delivery_id=delivery.pk, n=n, source="sandbox_telemetry", at=at, verb="failed", kind="sandboxtelemetry",
                resource=f"t-{n}",
            )
            for n in range(100)
        )  # fmt: skip
        with django_assert_max_num_queries(14):
            shown = page(operator, f"/inbox/{delivery.pk}/")
        assert [f">box-{n}</a>" in shown for n in (0, 49, 50)] == [True, True, False]

    def test_that_came_twice_says_so(self, operator: Client) -> None:
        delivery = receive()
        keep_one()
        assert "<dt>Duplicates</dt><dd>1, last" in page(operator, f"/inbox/{delivery.pk}/")
        assert "received 2 times" in page(operator, "/inbox/")


class TestReplayingOne:
    def test_processes_it_again_and_leaves_an_audit_line(self, operator: Client) -> None:
        delivery = receive()
        pass_time()
        answer = operator.post(f"/inbox/{delivery.pk}/replay/", follow=True)
        assert "It is being processed again" in answer.content.decode()
        assert Delivery.objects.get().status == "received"
        pass_time()
        assert [*delivery.history.order_by("number").values_list("number", flat=True)] == [1, 2]
        entry = LogEntry.objects.get()
        assert (entry.user.username, entry.get_change_message()) == (
            "root",
            f"Replayed github probe #{delivery.pk}, which was ignored",
        )
        assert entry.get_change_message() in page(operator, f"/inbox/{delivery.pk}/")

    def test_of_one_that_waits_is_refused_with_the_reason(self, operator: Client) -> None:
        delivery = receive()
        answer = operator.post(f"/inbox/{delivery.pk}/replay/", follow=True)
        assert "it waits to be processed already" in answer.content.decode()
        assert not LogEntry.objects.exists()


class TestReplayingMany:
    def test_counts_first_and_changes_nothing(self, operator: Client) -> None:
        for n in range(3):
            receive(delivery_id=f"d-{n}")
        pass_time()
        receive(delivery_id="waits")
        shown = page(operator, "/inbox/replays/new/?source=github")
        assert "3 deliveries match" in shown
        assert set(Delivery.objects.values_list("status", flat=True)) == {"ignored", "received"}
        assert not LogEntry.objects.exists()

    def test_replays_what_matches_and_shows_how_far_it_is(self, operator: Client) -> None:
        operations.keep([new(delivery_id=f"d-{n}") for n in range(150)])
        receive({}, source=Source.CLERK, delivery_id="other")
        while Delivery.objects.filter(status="received").exists():
            pass_time()
        answer = operator.post("/inbox/replays/new/", {"source": "github"}, follow=True)
        [(url, _)] = answer.redirect_chain
        assert '<strong class="number">0</strong> of 150' in answer.content.decode()
        first = ScheduledFunction.objects.get(pk=url.split("/")[-2])
        while ScheduledFunction.objects.filter(status="pending").exists():
            pass_time()
        shown = page(operator, url)
        assert '<strong class="number">150</strong> of 150' in shown
        assert 'data-over="yes"' in shown
        assert "source github" in shown
        github = Delivery.objects.filter(source="github")
        assert set(github.values_list("status", "tries")) == {("ignored", 2)}
        assert Delivery.objects.get(source="clerk").tries == 1
        assert f'href="/inbox/replays/{first.pk}/"' in page(operator, "/inbox/replays/")
        assert "Replays 150 deliveries up to this one" in LogEntry.objects.get().get_change_message()

    def test_is_stopped_after_the_batch_that_runs(self, operator: Client) -> None:
        operations.keep([new(delivery_id=f"d-{n}") for n in range(150)])
        while Delivery.objects.filter(status="received").exists():
            pass_time()
        url = operator.post("/inbox/replays/new/", {}).headers["Location"]
        first = int(url.split("/")[-2])
        while not ScheduledFunction.objects.filter(parent=first, function__endswith="replay_batch").exists():
            pass_time()
        answer = operator.post(f"{url}stop/", follow=True)
        assert "Stopped: no further batch is begun." in answer.content.decode()
        while ScheduledFunction.objects.filter(status="pending").exists():
            pass_time()
        assert '<strong class="number">100</strong> of 150' in page(operator, url)
        assert Delivery.objects.filter(tries=2).count() == 100
        answer = operator.post(f"{url}stop/", follow=True)
        assert "Too late" in answer.content.decode()

    def test_of_nothing_says_so(self, operator: Client) -> None:
        answer = operator.post("/inbox/replays/new/", {"source": "jira"}, follow=True)
        assert "No delivery matches any more" in answer.content.decode()
        assert not ScheduledFunction.objects.exists()

    def test_of_a_filter_that_makes_no_sense_counts_and_replays_nothing(self, operator: Client) -> None:
        receive()
        pass_time()
        assert operator.get("/inbox/replays/new/?source=paypal").status_code == 422
        assert operator.post("/inbox/replays/new/", {"source": "paypal"}).status_code == 422
        assert Delivery.objects.get().tries == 1

    def test_begins_where_the_list_was_filtered_to(self, operator: Client) -> None:
        receive()
        shown = page(operator, "/inbox/?source=github&status=trouble")
        form = shown.partition('action="/inbox/replays/new/"')[2].partition("</form>")[0]
        assert '<input type="hidden" name="source" value="github">' in form
        assert '<input type="hidden" name="status" value="trouble">' in form


class TestActivity:
    def test_is_read_page_by_page_and_filtered(self, operator: Client) -> None:
        delivery = receive()
        at = delivery.received_at
        Activity.objects.bulk_create(
            Activity(
                delivery_id=delivery.pk, n=n, source="github" if n % 2 else "jira", at=at - timedelta(minutes=n),
                actor="ada", verb="opened", object=f"issue {n}",
            )
            for n in range(60)
        )  # fmt: skip
        shown = page(operator, "/activity/")
        assert shown.count('data-key="l') == 50
        older = shown.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
        assert page(operator, older).count('data-key="l') == 10
        assert page(operator, "/activity/?source=jira").count('data-key="l') == 30
        assert page(operator, "/activity/?text=issue+59").count('data-key="l') == 1

    def test_says_what_today_came_to(self, operator: Client) -> None:
        delivery = receive()
        Activity.objects.create(
            delivery_id=delivery.pk, n=0, source="github", at=delivery.received_at, actor="ada", verb="x"
        )
        assert '<strong class="number">1</strong> entry<' in page(operator, "/activity/")

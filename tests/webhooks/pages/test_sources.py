"""Sources: how each does, secrets that are shown once, tokens of sandboxes, and test deliveries."""

import json
import socket
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models import F
from django.test import Client
from pytest_django import Settings

from postgres import clock
from tests.servers import serve
from tests.webhooks.inbox.support import new, receive
from webhooks import operations
from webhooks.domain.deliveries import Source
from webhooks.handlers import registry
from webhooks.models import Delivery, SandboxToken, Secret
from webhooks.operations import secrets
from webhooks.operations.secrets import sample
from webhooks.queries import pages
from webhooks.sources import configs
from webhooks.sources.requests import Key, Request

pytestmark = pytest.mark.usefixtures("transactional_db")

SOURCE = "/inbox/sources/github/"


def shown_secret(page: str) -> str:
    return page.partition('id="secret" tabindex="0"')[2].partition(">")[2].partition("<")[0]


class TestASecret:
    def test_is_made_up_and_shown_once(self, operator: Client) -> None:
        answer = operator.post(SOURCE, {"secret": "", "name": "our org", "grace": ""})
        secret = shown_secret(answer.content.decode())
        assert secret == secrets.newest(Source.GITHUB)
        assert "no-store" in answer.headers["Cache-Control"]
        for url in (SOURCE, "/inbox/", "/inbox/sources/", "/admin/webhooks/secret/"):
            assert secret not in operator.get(url).content.decode()
        row = Secret.objects.get()
        assert (row.name, row.retired_at) == ("our org", None)
        assert LogEntry.objects.get().get_change_message() == f"Added the secret {row.fingerprint} of github"

    def test_that_was_pasted_is_never_shown(self, operator: Client) -> None:
        page = operator.post(SOURCE, {"secret": "pasted by hand", "grace": ""}).content.decode()
        assert "pasted by hand" not in page
        assert secrets.newest(Source.GITHUB) == "pasted by hand"

    def test_that_can_be_none_is_refused_beside_its_field(self, operator: Client) -> None:
        answer = operator.post("/inbox/sources/clerk/", {"secret": "not base64!", "grace": ""})
        page = answer.content.decode()
        assert answer.status_code == 422
        assert "This cannot be a secret of clerk" in page
        assert "not base64!" not in page
        assert not Secret.objects.exists()

    @pytest.mark.parametrize(
        "pasted",
        ["we_1NabcdefGHIJKL", "sk_test_51Habcdefghijk", '"whsec_abcdef0123456789"', "whsec_", "> whsec_abc (^C)"],
    )
    def test_of_stripe_that_is_another_thing_of_its_is_refused_with_which(self, operator: Client, pasted: str) -> None:
        answer = operator.post("/inbox/sources/stripe/", {"secret": pasted, "grace": ""})
        assert (answer.status_code, Secret.objects.exists()) == (422, False)
        if len(pasted) >= 8:
            assert "begins with whsec_, without quotes" in answer.content.decode()
        assert (
            operator.post("/inbox/sources/stripe/", {"secret": "whsec_aB3" + "x" * 29, "grace": ""}).status_code == 200
        )

    def test_of_a_rotation_lets_the_earlier_ones_live_for_their_grace(self, operator: Client) -> None:
        old, _ = operations.add(Source.GITHUB)
        before = clock.now()
        operator.post(SOURCE, {"secret": "", "grace": "24"})
        old.refresh_from_db()
        assert old.retired_at is not None
        assert timedelta(hours=24) <= old.retired_at - before < timedelta(hours=25)
        assert Secret.objects.filter(retired_at=None).count() == 1
        assert 'data-status="paused">retires' in operator.get(SOURCE).content.decode()

    def test_is_retired_at_once_or_later(self, operator: Client) -> None:
        row, _ = operations.add(Source.GITHUB)
        url = f"{SOURCE}secrets/{row.pk}/retire/"
        assert "is not accepted from" in operator.post(url, {"grace": "1"}, follow=True).content.decode()
        page = operator.post(url, {"grace": "0"}, follow=True).content.decode()
        assert "is not accepted any more" in page
        assert 'data-live-secret="no"' in page
        row.refresh_from_db()
        assert row.retired_at is not None
        assert row.retired_at <= clock.now()

    def test_is_not_retired_without_a_moment_or_from_another_source(self, operator: Client) -> None:
        row, _ = operations.add(Source.GITHUB)
        page = operator.post(f"{SOURCE}secrets/{row.pk}/retire/", {"grace": "5"}, follow=True).content.decode()
        assert "Choose when:" in page
        other = operator.post(f"/inbox/sources/jira/secrets/{row.pk}/retire/", {"grace": "0"})
        assert other.status_code == 404
        row.refresh_from_db()
        assert row.retired_at is None

    def test_says_when_it_was_used(self, operator: Client) -> None:
        row, _ = operations.add(Source.GITHUB)
        assert "not used yet" in operator.get(SOURCE).content.decode()
        Secret.objects.filter(pk=row.pk).update(last_used_at=clock.now())
        assert "not used yet" not in operator.get(SOURCE).content.decode()


class TestATokenOfASandbox:
    def test_is_shown_once_and_opens_the_hooks(self, operator: Client) -> None:
        page = operator.post("/inbox/tokens/", {"sandbox": "box-1", "days": "7"}).content.decode()
        token = page.partition('id="token" tabindex="0"')[2].partition(">")[2].partition("<")[0]
        assert secrets.sandbox_of(token) == "box-1"
        row = SandboxToken.objects.get()
        assert row.expires_at is not None
        assert row.expires_at - clock.now() <= timedelta(days=7)
        assert token not in operator.get("/inbox/sources/sandbox_hooks/").content.decode()
        assert LogEntry.objects.get().get_change_message() == "Made a token of the sandbox box-1"

    def test_is_revoked_with_all_of_its_sandbox(self, operator: Client) -> None:
        for sandbox in ("box-1", "box-1", "box-2"):
            operations.create_token(sandbox)
        page = operator.post("/inbox/tokens/revoke/", {"sandbox": "box-1"}, follow=True).content.decode()
        assert "2 tokens of box-1 revoked." in page
        live = SandboxToken.objects.filter(revoked_at=None)
        assert [token.sandbox for token in live] == ["box-2"]
        assert "Revoked 2 tokens of the sandbox box-1" in LogEntry.objects.get().get_change_message()

    @pytest.mark.parametrize("given", [{"sandbox": ""}, {"sandbox": "x" * 101}, {"sandbox": "a", "days": "0"}])
    def test_is_not_made_of_nonsense(self, operator: Client, given: dict[str, str]) -> None:
        page = operator.post("/inbox/tokens/", given, follow=True).content.decode()
        assert "No token was created." in page
        assert not SandboxToken.objects.exists()


class TestTheHealthOfASource:
    def test_is_told_by_its_newest_deliveries(self, operator: Client) -> None:
        operations.keep([new(delivery_id=f"d-{n}") for n in range(4)])
        rows = list(Delivery.objects.order_by("pk"))
        ended = {"ended_at": F("received_at") + timedelta(seconds=2), "tries": 1}
        Delivery.objects.filter(pk__in=[row.pk for row in rows[:3]]).update(status="processed", **ended)
        Delivery.objects.filter(pk=rows[3].pk).update(status="dead", note="it broke", **ended)
        Delivery.objects.update(occurred_at=F("received_at") + timedelta(seconds=90))
        github = next(one for one in pages.source_health() if one.source == Source.GITHUB)
        assert (github.arrived, github.succeeded, github.unhappy, github.share) == (4, 3, 1, 0.75)
        assert (github.took_s, github.skew_s) == ([2.0, 2.0], -90.0)
        assert github.last_at == max(row.received_at for row in rows)
        page = operator.get(SOURCE).content.decode()
        assert ("75 %" in page, "2 min ahead" in page or "90 s ahead" in page) == (True, True)

    def test_forgets_what_came_before_the_last_day_but_for_the_moment(self) -> None:
        delivery = receive()
        long_ago = clock.now() - timedelta(days=3)
        Delivery.objects.filter(pk=delivery.pk).update(received_at=long_ago)
        github = next(one for one in pages.source_health() if one.source == Source.GITHUB)
        assert (github.arrived, github.share, github.last_at) == (0, None, long_ago)

    def test_of_all_eight_is_listed_with_what_they_need(self, operator: Client) -> None:
        operations.add(Source.STRIPE)
        page = operator.get("/inbox/sources/").content.decode()
        assert page.count('data-key="s') == 8
        assert (page.count(">needs a secret<"), page.count(">ready<")) == (7, 1)
        assert page.count(">never<") == 8


class TestATestDelivery:
    @pytest.mark.parametrize("source", list(Source))
    def test_has_a_body_of_its_sources_form_that_harms_nothing(self, source: Source) -> None:
        """Signed and taken in as the real thing would be; and nothing handles its type."""
        sender, now = configs.CONFIGS[source], datetime.now(UTC)
        event_type, text = sample(source, now=now, token="abc")
        secret, body = sender.scheme.new_secret(b"x" * 32), text.encode()
        headers = sender.sign(body, secret=secret, event_type=event_type, delivery_id="msg_1", now=now)
        named = {"event": event_type} if source is Source.CONFLUENCE else {}
        lower = {name.lower(): value for name, value in headers.items()}
        request = Request(headers=lower, body=body, query=named)
        verified = sender.scheme.verify(request, keys=[Key(id=7, secret=secret)], now=now)
        envelope = sender.envelope(request, json.loads(text), verified=verified)
        assert (verified.key_id, envelope.event_type) == (7, event_type)
        if source is not Source.SANDBOX_TELEMETRY:  # which has one type: its sample is a batch of none
            assert registry.find(source, event_type) is None

    def test_of_each_source_goes_all_the_way_and_leads_to_what_came_of_it(
        self, operator: Client, settings: Settings
    ) -> None:
        for source in Source:
            operations.add(source)
        with serve() as server:
            settings.JOBFARM_URL = server.url
            for source in Source:
                event_type, body = sample(source, now=clock.now(), token=source)
                page = operator.post(f"/inbox/sources/{source}/send/", {"event": event_type, "body": body}, follow=True)
                delivery = Delivery.objects.get(source=source)
                assert page.redirect_chain == [(f"/inbox/{delivery.pk}/", 302)], source
                assert (delivery.event_type, delivery.status) == (event_type, "received")
                assert f"Sent {delivery} as a test" in page.content.decode()
            rejected = operator.post(f"{SOURCE}send/", {"event": "ping", "body": "no JSON"}, follow=True)
            old = '{"webhookEvent": "x", "timestamp": 1700000000000}'
            refused = operator.post("/inbox/sources/jira/send/", {"body": old})
        assert "The body is not JSON" in rejected.content.decode()
        assert refused.status_code == 422
        assert "The address answered 401:" in refused.content.decode()

    def test_without_a_secret_says_so(self, operator: Client) -> None:
        answer = operator.post(f"{SOURCE}send/", {"event": "ping", "body": "{}"})
        assert answer.status_code == 422
        assert "add one on its page, or by `webhooks secret add github`" in answer.content.decode()

    def test_that_nobody_answers_says_where_it_went(self, operator: Client, settings: Settings) -> None:
        operations.add(Source.GITHUB)
        with socket.socket() as closed:  # bound and not listening: connections are refused
            closed.bind(("127.0.0.1", 0))
            own = f"http://127.0.0.1:{closed.getsockname()[1]}"
            settings.JOBFARM_URL = own
            answer = operator.post(f"{SOURCE}send/", {"event": "ping", "body": '{"kept": "what was written"}'})
        page = answer.content.decode()
        assert answer.status_code == 422
        assert f"Nothing answers at {own}/api/webhooks/github" in page
        assert "what was written" in page

    def test_whose_type_no_header_can_hold_says_so(self, operator: Client) -> None:
        operations.add(Source.GITHUB)
        answer = operator.post(f"{SOURCE}send/", {"event": "пинг", "body": "{}"})
        assert answer.status_code == 422
        assert "The request cannot be taken: a type that stands in a header is of ASCII" in answer.content.decode()

    def test_begins_with_the_body_of_another(self, operator: Client) -> None:
        delivery = receive({"like": "this"}, event_type="issues.opened")
        page = operator.get(f"{SOURCE}send/?like={delivery.pk}").content.decode()
        assert "{&quot;like&quot;: &quot;this&quot;}" in page
        assert 'value="issues.opened"' in page

    @pytest.mark.parametrize("like", ["x", "0", "-1", "99999999999999999999", "٣"])
    def test_that_is_like_none_begins_with_the_sample(self, operator: Client, like: str) -> None:
        page = operator.get(f"{SOURCE}send/", {"like": like}).content.decode()
        assert "Half measures" in page

"""Whether the inbox is well: what doctor and the health pages are told."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from postgres import clock
from tests.webhooks.edges.sender import signed
from tests.webhooks.inbox.support import receive
from webhooks.domain.deliveries import Source
from webhooks.errors import BadSecret, CannotOpen
from webhooks.models import Delivery, Secret
from webhooks.operations import health, ingest, secrets
from webhooks.sources.requests import Request, Verified

pytestmark = pytest.mark.usefixtures("transactional_db")

MINUTE = timedelta(minutes=1)


def stand(number: int, status: str, *, since: timedelta = timedelta(0), source: Source = Source.CLERK) -> None:
    """A delivery in this state, whose turn came so long ago."""
    row = receive(source=source, delivery_id=f"d{number}")
    at = clock.now() - since
    waits = at if status == "failed" else None
    ended = None if status == "received" else at
    Delivery.objects.filter(pk=row.pk).update(
        status=status, note="x", received_at=at, ended_at=ended, next_attempt_at=waits
    )


class TestHealth:
    def test_of_an_empty_inbox_names_what_is_missing(self) -> None:
        found = health()
        assert (found.ready, found.needs_secret, found.unreadable) == ((), tuple(Source), ())
        assert (found.waiting, found.late, found.failed, found.dead, found.refused) == (0, 0, 0, 0, {})
        assert found.rejected == 0

    def test_tells_sources_that_can_be_opened_from_those_that_cannot(self) -> None:
        secrets.add(Source.GITHUB)
        retired, _ = secrets.add(Source.JIRA)
        secrets.retire(retired.pk)
        broken, _ = secrets.add(Source.STRIPE)
        Secret.objects.filter(pk=broken.pk).update(sealed=b"sealed under another key")
        found = health()
        assert (found.ready, found.unreadable) == ((Source.GITHUB,), (Source.STRIPE,))
        assert set(found.needs_secret) == set(Source) - {Source.GITHUB, Source.STRIPE}

    def test_counts_what_waits_is_late_failed_and_died(self) -> None:
        telemetry = Source.SANDBOX_TELEMETRY
        given: list[tuple[str, timedelta, Source]] = [
            ("received", timedelta(0), Source.CLERK),
            ("received", 2 * MINUTE, Source.CLERK),
            ("received", 1.5 * MINUTE, telemetry),  # its cron comes every half a minute
            ("received", 3 * MINUTE, telemetry),
            ("failed", -MINUTE, Source.CLERK),
            ("failed", 2 * MINUTE, Source.CLERK),
            ("dead", 9 * MINUTE, Source.CLERK),
            ("processed", 9 * MINUTE, Source.CLERK),
        ]
        for number, (status, since, source) in enumerate(given):
            stand(number, status, since=since, source=source)
        found = health()
        assert (found.waiting, found.late, found.failed, found.dead) == (4, 3, 2, 1)

    def test_counts_what_handlers_rejected_within_a_day(self) -> None:
        for number, since in enumerate([MINUTE, MINUTE, timedelta(days=2)]):
            stand(number, "rejected", since=since)
        Delivery.objects.exclude(delivery_id="d0").update(tries=1)  # that one was rejected on arrival
        assert health().rejected == 1

    def test_adds_up_what_was_refused_within_a_day(self) -> None:
        for reason in ("bad_signature", "bad_signature", "too_old"):
            ingest.count_refusals(
                [ingest.Refused(source=Source.JIRA, reason=reason, address=None, size=1, header_names=[])]
            )
        assert health().refused == {"jira": 3}


class TestSecrets:
    @pytest.mark.parametrize(
        ("source", "secret"),
        [
            (Source.CLERK, "whsec_"),
            (Source.CLERK, "whsec_not base64"),
            (Source.SANDBOX_HOOKS, "whsec_c2hvcnQ="),
            (Source.GITHUB, ""),
            (Source.CONFLUENCE, "x" * 256),
        ],
    )
    def test_that_can_open_nothing_are_refused(self, source: Source, secret: str) -> None:
        with pytest.raises(BadSecret):
            secrets.add(source, secret)
        assert not Secret.objects.exists()

    def test_live_once_each(self) -> None:
        row, given = secrets.add(Source.GITHUB)
        with pytest.raises(BadSecret, match="the source has it already"):
            secrets.add(Source.GITHUB, given)
        secrets.add(Source.JIRA, given)
        secrets.retire(row.pk)
        again, _ = secrets.add(Source.GITHUB, given)
        assert again.fingerprint == row.fingerprint

    def test_are_sealed_and_opened_under_an_earlier_key_of_the_farm(
        self, settings: Any, handle: Callable[..., None]
    ) -> None:
        row, given = secrets.add(Source.GITHUB)
        assert given.encode() not in bytes(row.sealed)
        settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another"
        assert secrets.newest(Source.GITHUB) == given
        assert health().ready == (Source.GITHUB,)
        settings.SECRET_KEY_FALLBACKS = []
        assert health().unreadable == (Source.GITHUB,)

    def test_that_cannot_be_opened_keep_no_other_from_opening_what_is_its_own(self, settings: Any) -> None:
        """After another SECRET_KEY the first that was added again let in nobody until all of them were."""
        old = {source: secrets.add(source)[1] for source in (Source.JIRA, Source.GITHUB)}
        settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [], "another"
        row, new = secrets.add(Source.GITHUB)

        def sent(source: Source, secret: str) -> Verified:
            given = signed(source, {"n": 1}, secret)
            request = Request(headers={name.lower(): value for name, value in given.headers.items()}, body=given.body)
            return ingest.verify_anew(source, request, now=clock.now())

        assert sent(Source.GITHUB, new).key_id == row.pk
        for source, secret in old.items():
            with pytest.raises(CannotOpen):  # 503: the sender comes again
                sent(source, secret)

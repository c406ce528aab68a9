"""Signatures: the published vectors of each scheme, the adapters' own libraries as a second opinion, and forgeries."""

import base64
import json
import random
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from tests.looped import looped
from webhooks.domain.deliveries import Source
from webhooks.errors import BadSecret, BadSignature
from webhooks.sources import configs
from webhooks.sources.requests import Key, Request, Verified

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the package, as it is imported
    import stripe

VECTORS = Path(__file__).parents[2] / "data/webhooks/signature-vectors"
NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
BODY = '{"type":"invoice.paid","id":"evt_1","note":"Ærø 🛰","timestamp":1795230000000}'.encode()
SECRET_BYTES = bytes(range(32))


def vectors(name: str) -> list[Any]:
    """The vectors of a file, each under its name."""
    return [pytest.param(one, id=one["name"]) for one in json.loads((VECTORS / f"{name}.json").read_text())]


def verify(source: Source, body: bytes, headers: dict[str, str], *secrets: str, now: datetime = NOW) -> Verified:
    keys = [Key(id=number, secret=secret) for number, secret in enumerate(secrets, start=1)]
    request = Request(headers={name.lower(): value for name, value in headers.items()}, body=body)
    return configs.CONFIGS[source].scheme.verify(request, keys=keys, now=now)


def reason(source: Source, body: bytes, headers: dict[str, str], *secrets: str, now: datetime = NOW) -> str | None:
    """Why it is refused; None if it is not."""
    try:
        verify(source, body, headers, *secrets, now=now)
    except BadSignature as error:
        return error.reason
    return None


def sign(source: Source, secret: str, body: bytes = BODY, *, now: datetime = NOW) -> dict[str, str]:
    return configs.CONFIGS[source].sign(body, secret=secret, event_type="push", delivery_id="msg_1", now=now)


def a_secret(source: Source, number: int = 0) -> str:
    return configs.CONFIGS[source].scheme.new_secret(bytes([number]) + SECRET_BYTES[1:])


DATED = [Source.CLERK, Source.STRIPE, Source.SANDBOX_HOOKS, Source.SANDBOX_COMPLETION, Source.SANDBOX_TELEMETRY]
UNDATED = [Source.GITHUB, Source.JIRA, Source.CONFLUENCE]


class TestPublishedVectors:
    @pytest.mark.parametrize("vector", vectors("standard-webhooks"))
    @pytest.mark.parametrize("source", [source for source in DATED if source is not Source.STRIPE])
    def test_of_standard_webhooks(self, source: Source, vector: dict[str, Any]) -> None:
        headers = {name: vector[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
        now = datetime.fromtimestamp(vector["now"], UTC)
        refused = reason(source, vector["body"].encode(), headers, vector["secret"], now=now)
        assert (refused is None) is vector["valid"], refused

    @looped("vector", vectors("standard-webhooks"))
    def test_of_standard_webhooks_under_the_headers_of_svix(self, vector: dict[str, Any]) -> None:
        headers = {f"svix-{part}": vector[f"webhook-{part}"] for part in ("id", "timestamp", "signature")}
        now = datetime.fromtimestamp(vector["now"], UTC)
        refused = reason(Source.CLERK, vector["body"].encode(), headers, vector["secret"], now=now)
        assert (refused is None) is vector["valid"], refused

    @looped("vector", vectors("github"))
    def test_of_github(self, vector: dict[str, Any]) -> None:
        refused = reason(Source.GITHUB, vector["body"].encode(), {vector["header"]: vector["value"]}, vector["secret"])
        assert (refused is None) is vector["valid"], refused

    @pytest.mark.parametrize("vector", vectors("jira"))
    @pytest.mark.parametrize("source", [Source.JIRA, Source.CONFLUENCE])
    def test_of_atlassian(self, source: Source, vector: dict[str, Any]) -> None:
        refused = reason(source, vector["body"].encode(), {vector["header"]: vector["value"]}, vector["secret"])
        assert (refused is None) is vector["valid"], refused

    @looped("vector", vectors("stripe"))
    def test_of_stripe(self, vector: dict[str, Any]) -> None:
        now = datetime.fromtimestamp(vector["now"], UTC)
        headers = {vector["header"]: vector["value"]}
        refused = reason(Source.STRIPE, vector["body"].encode(), headers, vector["secret"], now=now)
        assert (refused is None) is vector["valid"], refused


class TestTheSourcesOwnLibraries:
    def test_verify_what_we_sign_for_standard_webhooks(self) -> None:
        secret = a_secret(Source.SANDBOX_COMPLETION)
        now = datetime.now(UTC)  # that library reads the clock itself
        Webhook(secret).verify(BODY, sign(Source.SANDBOX_COMPLETION, secret, now=now))

    def test_sign_what_we_verify_for_standard_webhooks(self) -> None:
        secret = a_secret(Source.SANDBOX_COMPLETION)
        signature = Webhook(secret).sign("msg_1", NOW, BODY.decode())
        stamp = str(int(NOW.timestamp()))
        headers = {"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": signature}
        assert verify(Source.SANDBOX_COMPLETION, BODY, headers, secret) == Verified(key_id=1, signed_at=NOW)

    def test_verify_what_we_sign_for_stripe(self) -> None:
        secret = a_secret(Source.STRIPE)
        header = sign(Source.STRIPE, secret, now=datetime.now(UTC))["Stripe-Signature"]
        assert stripe.WebhookSignature.verify_header(BODY.decode(), header, secret, tolerance=300)

    def test_sign_what_we_verify_for_stripe(self) -> None:
        secret, stamp = a_secret(Source.STRIPE), int(NOW.timestamp())
        signature = stripe.WebhookSignature._compute_signature(f"{stamp}.{BODY.decode()}", secret)
        headers = {"stripe-signature": f"t={stamp},v1={signature}"}
        assert verify(Source.STRIPE, BODY, headers, secret) == Verified(key_id=1, signed_at=NOW)


@pytest.mark.parametrize("source", Source)
class TestEverySource:
    def test_takes_what_it_signed_and_says_which_secret_it_was(self, source: Source) -> None:
        first, second = a_secret(source, 1), a_secret(source, 2)
        assert verify(source, BODY, sign(source, second), first, second).key_id == 2
        assert verify(source, BODY, sign(source, first), first, second).key_id == 1

    def test_refuses_a_secret_that_lives_no_more(self, source: Source) -> None:
        assert reason(source, BODY, sign(source, a_secret(source, 1)), a_secret(source, 2)) == "bad_signature"

    def test_refuses_an_empty_secret_even_if_it_is_what_signed(self, source: Source) -> None:
        signatures_of = configs.CONFIGS[source]
        with pytest.raises(BadSecret):
            signatures_of.scheme.check_secret("", source=source)
        headers = sign(source, a_secret(source))
        assert reason(source, BODY, headers, "") == "bad_signature"

    def test_takes_the_secrets_that_it_makes(self, source: Source) -> None:
        configs.CONFIGS[source].scheme.check_secret(a_secret(source), source=source)

    @pytest.mark.parametrize("value", ["", "x" * 3000, "sha256=é", "v1,é", "t=é,v1=é", " ", ",", "=", "v1,", "sha256="])
    def test_refuses_a_header_that_is_no_signature(self, source: Source, value: str) -> None:
        headers = sign(source, a_secret(source))
        name = next(name for name in headers if "signature" in name.lower())
        refused = reason(source, BODY, headers | {name: value}, a_secret(source))
        assert refused in {"missing_signature", "malformed_signature", "malformed_timestamp", "bad_signature"}

    def test_refuses_a_request_without_any_header(self, source: Source) -> None:
        assert reason(source, BODY, {}, a_secret(source)) == "missing_signature"


@pytest.mark.parametrize("source", DATED)
class TestTimeStamps:
    @pytest.mark.parametrize("offset", [-300, -1, 0, 1, 300])
    def test_within_five_minutes_are_taken(self, source: Source, offset: int) -> None:
        headers = sign(source, a_secret(source), now=NOW + timedelta(seconds=offset))
        assert reason(source, BODY, headers, a_secret(source)) is None

    @pytest.mark.parametrize(("offset", "why"), [(-301, "too_old"), (301, "too_new"), (10**9, "too_new")])
    def test_further_off_are_refused_either_way(self, source: Source, offset: int, why: str) -> None:
        headers = sign(source, a_secret(source), now=NOW + timedelta(seconds=offset))
        assert reason(source, BODY, headers, a_secret(source)) == why

    @pytest.mark.parametrize(
        "stamp", ["", "-1", "1e9", "inf", "nan", "1795230000.5", "٣", "+1795230000", "9" * 30, " 1"]
    )
    def test_that_are_no_whole_seconds_are_refused(self, source: Source, stamp: str) -> None:
        secret = a_secret(source)
        assert reason(source, BODY, _stamped(source, secret, stamp), secret) in {
            "missing_signature", "malformed_signature", "malformed_timestamp", "bad_signature"
        }  # fmt: skip


def _stamped(source: Source, secret: str, stamp: str) -> dict[str, str]:
    """The right signature over a wrong time stamp."""
    if source is Source.STRIPE:
        signature = stripe.WebhookSignature._compute_signature(f"{stamp}.{BODY.decode()}", secret)
        return {"stripe-signature": f"t={stamp},v1={signature}"}
    import hashlib
    import hmac

    key = base64.b64decode(secret.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.new(key, f"msg_1.{stamp}.".encode() + BODY, hashlib.sha256).digest()).decode()
    prefix = "svix" if source is Source.CLERK else "webhook"
    return {f"{prefix}-id": "msg_1", f"{prefix}-timestamp": stamp, f"{prefix}-signature": f"v1,{signature}"}


class TestForgeries:
    def test_none_of_ten_thousand_is_taken(self) -> None:
        """Each is a right request with one thing changed in what is signed or in the signature itself."""
        rng = random.Random(20261121)
        taken: list[tuple[Source, str]] = []
        for number in range(10_000):
            source = list(Source)[number % len(Source)]
            mutation = rng.choice(MUTATIONS)
            secret = a_secret(source, number % 251)
            body, headers = mutation(BODY, sign(source, secret), rng)
            if (body, headers) == (BODY, sign(source, secret)):
                continue
            if reason(source, body, headers, secret) is None:
                taken.append((source, mutation.__name__))
        assert taken == []

    def test_are_made_of_requests_that_are_taken_unchanged(self) -> None:
        taken = [reason(source, BODY, sign(source, a_secret(source)), a_secret(source)) for source in Source]
        assert taken == [None] * len(Source)


Mutation = Callable[[bytes, dict[str, str], random.Random], tuple[bytes, dict[str, str]]]


def _signature_of(headers: dict[str, str]) -> str:
    return next(name for name in headers if "signature" in name.lower())


def flipped_bit_of_the_body(body: bytes, headers: dict[str, str], rng: random.Random) -> tuple[bytes, dict[str, str]]:
    changed = bytearray(body)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed), headers


def longer_or_shorter_body(body: bytes, headers: dict[str, str], rng: random.Random) -> tuple[bytes, dict[str, str]]:
    return rng.choice([body + b" ", b" " + body, body[:-1], body[1:], b"", body * 2, body + b"\n"]), headers


def changed_signature(body: bytes, headers: dict[str, str], rng: random.Random) -> tuple[bytes, dict[str, str]]:
    name = _signature_of(headers)
    text = headers[name]
    # Behind the prefix: `sha256=`, `v1,` or `t=...,v1=`.
    start = max(text.rfind("="), 0) + 1 if "v1=" in text or text.startswith("sha256=") else 3
    place = rng.randrange(start, len(text))
    letters = "0123456789abcdefABCDEFghijzZ+/=,. "
    return body, headers | {name: text[:place] + rng.choice(letters) + text[place + 1 :]}


def cut_signature(body: bytes, headers: dict[str, str], rng: random.Random) -> tuple[bytes, dict[str, str]]:
    name = _signature_of(headers)
    return body, headers | {name: headers[name][: -rng.randrange(1, 20)]}


def upper_case(body: bytes, headers: dict[str, str], rng: random.Random) -> tuple[bytes, dict[str, str]]:
    del rng
    name = _signature_of(headers)
    return body, headers | {name: headers[name].upper()}


def another_time(body: bytes, headers: dict[str, str], rng: random.Random) -> tuple[bytes, dict[str, str]]:
    other = str(int(NOW.timestamp()) + rng.choice([-1, 1]) * rng.randrange(1, 290))
    stamp = str(int(NOW.timestamp()))
    if all(stamp not in value for value in headers.values()):
        return flipped_bit_of_the_body(body, headers, rng)
    return body, {name: value.replace(stamp, other) for name, value in headers.items()}


def another_id(body: bytes, headers: dict[str, str], rng: random.Random) -> tuple[bytes, dict[str, str]]:
    signed = [name for name in headers if name.lower() in {"svix-id", "webhook-id"}]
    if not signed:
        return flipped_bit_of_the_body(body, headers, rng)
    return body, headers | {signed[0]: rng.choice(["msg_2", "msg_1.", "msg_1 ", "MSG_1", "m"])}


def without_a_header(body: bytes, headers: dict[str, str], rng: random.Random) -> tuple[bytes, dict[str, str]]:
    matters = [n for n in headers if n.lower().startswith(("svix", "webhook")) or "signature" in n.lower()]
    gone = rng.choice(matters)
    return body, {name: value for name, value in headers.items() if name != gone}


MUTATIONS: list[Mutation] = [
    flipped_bit_of_the_body,
    longer_or_shorter_body,
    changed_signature,
    cut_signature,
    upper_case,
    another_time,
    another_id,
    without_a_header,
]
assert len(UNDATED) + len(DATED) == len(Source)

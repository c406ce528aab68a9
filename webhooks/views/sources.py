"""Where webhooks come from: how each source does, its secrets, the bearer tokens of sandboxes, and test deliveries."""

import hashlib
import secrets as rng
from datetime import timedelta
from typing import Final

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from core import audit, people
from core.pages import FORM, POST, Answer, acting
from core.values import row_id
from postgres import clock
from webhooks import operations
from webhooks.domain import bodies
from webhooks.domain.deliveries import Source
from webhooks.errors import BadSecret, WebhooksError
from webhooks.models import Delivery, Secret
from webhooks.operations.secrets import sample
from webhooks.queries import pages
from webhooks.sources import configs
from webhooks.views.inbox import Form, known_types, operators, viewers

_GRACES: Final = [("0", "at once"), ("1", "in an hour"), ("24", "in a day"), ("168", "in a week")]
LONGEST_BODY: Final = 200_000  # characters of a test delivery; `manage.py webhooks send` takes what is longer


def _hours(text: str) -> timedelta:
    return timedelta(hours=int(text))


class SecretForm(Form):
    ids = "secret"
    secret = forms.CharField(
        required=False, max_length=255, strip=False, label="The sender's secret",
        help_text="Paste it if the sender created one (Clerk, Stripe). If empty, one is generated here and shown once.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )  # fmt: skip
    name = forms.CharField(required=False, max_length=100, label="Name", help_text="For people: where it is used.")
    grace = forms.TypedChoiceField(
        choices=[("", "stay live"), *((hours, f"retire {when}") for hours, when in _GRACES)], coerce=_hours,
        empty_value=None, required=False, label="Current secrets",
        help_text="A rotation: until then both are accepted, so no request is refused while you change the sender.",
    )  # fmt: skip


class RetireForm(forms.Form):
    grace = forms.TypedChoiceField(choices=_GRACES, coerce=_hours)


class TokenForm(Form):
    ids = "token"
    sandbox = forms.CharField(max_length=100, help_text="Its name, as deliveries will show it.")
    days = forms.TypedChoiceField(
        choices=[("1", "a day"), ("7", "a week"), ("90", "90 days"), ("", "until revoked")],
        coerce=lambda days: timedelta(days=int(days)), empty_value=None, required=False, label="Valid for",
    )  # fmt: skip


class SendForm(Form):
    ids = "test"
    event = forms.CharField(
        required=False, max_length=255, label="Type", widget=forms.TextInput(attrs={"list": "known-types"})
    )
    body = forms.CharField(
        max_length=LONGEST_BODY,
        strip=False,
        widget=forms.Textarea(attrs={"class": "mono", "rows": 14, "spellcheck": "false"}),
        help_text="Signed and posted byte for byte as written here.",
    )

    def bytes(self) -> bytes:
        """What is sent. Browsers end lines with CR LF."""
        body: str = self.cleaned_data["body"]
        return body.replace("\r\n", "\n").encode()


@viewers()
def sources(request: HttpRequest) -> HttpResponse:
    return render(request, "webhooks/sources.html")


@sensitive_post_parameters("secret")
@viewers(FORM)
@sensitive_variables("made")
def source(request: HttpRequest, name: str) -> HttpResponse:
    """One source; a POST adds a secret, which is in its answer, this once."""
    chosen = configs.find(name)
    form = SecretForm(request.POST if request.method == "POST" else None)
    if form.is_bound:
        if not request.user.has_perm(operations.OPERATE):
            raise Http404("There is nothing at this address.")
        if form.is_valid() and (made := _added(request, chosen, form)) is not None:
            return _shown(request, *made, is_supplied=bool(form.cleaned_data["secret"]))
    return render(
        request, "webhooks/source.html", _context(request, chosen, form), status=422 if form.is_bound else 200
    )


@acting("webhooks:source", operators(POST))
def retire(request: HttpRequest, name: str, secret_id: int) -> Answer:
    """Let a secret open nothing any more, at once or after a while."""
    stored, form = pages.secret(secret_id), RetireForm(request.POST)
    if stored is None or stored.source != configs.find(name):
        raise Http404("There is no such secret.")
    if not form.is_valid():
        return messages.ERROR, "Choose when: at once, in an hour, a day, or a week."
    row = operations.retire(secret_id, grace=form.cleaned_data["grace"], by=people.person(request))
    when = f"from {row.retired_at:%Y-%m-%d %H:%M} UTC on" if form.cleaned_data["grace"] else "any more"
    return f"The secret {row.fingerprint} is not accepted {when}."


@sensitive_variables()
def _added(request: HttpRequest, source: Source, form: SecretForm) -> tuple[Secret, str] | None:
    """The new row and the secret itself; None if it cannot be one, which the form then says."""
    secret, name, after = form.cleaned_data["secret"] or None, form.cleaned_data["name"], form.cleaned_data["grace"]
    by = people.person(request)
    try:
        if after is None:
            return operations.add(source, secret, name=name, by=by)
        return operations.rotate(source, secret, grace=after, name=name, by=by)
    except BadSecret as refusal:
        form.add_error("secret", refusal.message)
        return None


@sensitive_variables("secret")
def _shown(request: HttpRequest, row: Secret, secret: str, *, is_supplied: bool) -> HttpResponse:
    """What was pasted is known to who pasted it, and not shown again."""
    source = Source(row.source)
    context = {"row": row, "secret": None if is_supplied else secret, "source": source, "url": _url(request, source)}
    return render(request, "webhooks/secret_added.html", context)


def _context(request: HttpRequest, source: Source, form: SecretForm) -> dict[str, object]:
    is_sandbox = source is Source.SANDBOX_HOOKS
    return {
        "source": source,
        "url": _url(request, source),
        "sender": configs.CONFIGS[source],
        "secrets": pages.secrets(source),
        "form": form,
        "retire_form": RetireForm(),
        "tokens": pages.tokens() if is_sandbox else None,
        "token_form": TokenForm() if is_sandbox else None,
    }


def _url(request: HttpRequest, source: Source) -> str:
    """Where the sender is to post to, as this browser reaches the farm."""
    return request.build_absolute_uri(configs.CONFIGS[source].path)


HOOKS = Source.SANDBOX_HOOKS


@operators(POST)
@sensitive_variables("token")
def create_token(request: HttpRequest) -> HttpResponse:
    form = TokenForm(request.POST)
    if not form.is_valid():
        for errors in form.errors.values():
            messages.error(request, f"No token was created. {' '.join(map(str, errors))}")
        return redirect("webhooks:source", HOOKS)
    lifetime = form.cleaned_data["days"]
    expires_at = None if lifetime is None else clock.now() + lifetime
    with transaction.atomic():
        row, token = operations.create_token(form.cleaned_data["sandbox"], expires_at=expires_at)
        audit.record(people.person(request), row, f"Made a token of the sandbox {row.sandbox}")
    url = request.build_absolute_uri(configs.CONFIGS[HOOKS].path)
    return render(request, "webhooks/token_added.html", {"row": row, "token": token, "url": url, "source": HOOKS})


@operators(POST)
def revoke_tokens(request: HttpRequest) -> HttpResponse:
    sandbox = request.POST.get("sandbox", "")[:100].replace("\x00", "")
    rows = [row for row in pages.tokens() if row.sandbox == sandbox and row.revoked_at is None]
    if not rows:
        raise Http404("This sandbox has no token.")
    with transaction.atomic():
        count = operations.revoke_tokens(sandbox)
        audit.record(people.person(request), rows[0], f"Revoked {count} tokens of the sandbox {sandbox}")
    messages.success(request, f"{count} token{'' if count == 1 else 's'} of {sandbox} revoked.")
    return redirect("webhooks:source", HOOKS)


@operators(FORM)
def send(request: HttpRequest, name: str) -> HttpResponse:
    source = configs.find(name)
    if request.method != "POST":
        form = SendForm(initial=_initial(source, like=request.GET.get("like", "")))
        return _page(request, source, form, status=200)
    form = SendForm(request.POST)
    if not form.is_valid():
        return _page(request, source, form, status=422)
    try:
        sent = operations.send(source, form.bytes(), event_type=form.cleaned_data["event"])
    except WebhooksError as refusal:
        form.add_error(None, refusal.message)
        return _page(request, source, form, status=422)
    return _arrived(request, source, form, sent)


def _arrived(request: HttpRequest, source: Source, form: SendForm, sent: operations.Sent) -> HttpResponse:
    """To the delivery that it became, or back to the form with the address's answer."""
    digest = hashlib.sha256(form.bytes()).digest()
    rows = Delivery.objects.defer("body", "search").filter(source=source, body_sha256=digest)
    delivery = rows.order_by("-pk").first()
    if delivery is None or sent.status not in {200, 400}:  # 400: taken in as rejected
        form.add_error(None, f"The address answered {sent.status}: {sent.answer[:500]}")
        return _page(request, source, form, status=422)
    audit.record(people.person(request), delivery, f"Sent {delivery} as a test")
    messages.success(request, f"The address answered {sent.status}: {sent.answer[:200]}")
    return redirect("webhooks:delivery", delivery.pk)


def _page(request: HttpRequest, source: Source, form: SendForm, *, status: int) -> HttpResponse:
    context = {"source": source, "form": form, "types": known_types(source)}
    return render(request, "webhooks/send.html", context, status=status)


def _initial(source: Source, *, like: str) -> dict[str, str]:
    delivery = pages.delivery(row_id(like) or 0)
    if delivery is None or delivery.source != source or delivery.body_bytes > LONGEST_BODY:
        event_type, body = sample(source, now=clock.now(), token=rng.token_hex(6))
        return {"event": event_type, "body": body}
    start = pages.body_start(delivery.pk, most=delivery.body_bytes)
    shown = bodies.show(start, size=delivery.body_bytes, content_type="application/json")
    return {"event": delivery.event_type, "body": shown.text}

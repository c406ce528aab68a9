"""Pages of the chat. Each button posts a form: with scripts the page stays and shows the result, without it is
loaded again."""

import json
import math
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts import http as accounts_http, operations as accounts
from accounts.errors import AccountsError
from core import people
from core.refusal import CancelVerdict
from examples.chat import limits, live_queries, operations, queries
from examples.chat.domain import texts
from examples.chat.errors import ChatError, NoSuchRoom
from jobs import http as jobs_http
from jobs.errors import InvalidValue, JobsError
from ratelimits.errors import RateLimited

BIGGEST_ID = 2**63 - 1
OLLAMA = "http://127.0.0.1:11434/v1"  # where it listens by default

_CANCELED = {
    CancelVerdict.BEFORE_START: "Canceled before an answer was started.",
    CancelVerdict.BEFORE_RETRY: "Canceled: there will be no further attempt.",
    CancelVerdict.WHILE_SUSPENDED: "Canceled: there will be no further attempt.",
    CancelVerdict.WHILE_RUNNING: "Canceled: whatever the worker still writes is discarded.",
    CancelVerdict.TOO_LATE: "Too late: it has already ended.",
}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def rooms(request: HttpRequest) -> HttpResponse:
    """One's rooms, live, and a form that makes another."""
    user = people.person(request)
    why = ""
    if request.method == "POST":
        try:
            group = accounts.create_group(request.POST.get("name", ""), by=user)
        except (AccountsError, RateLimited) as refusal:
            why = _sentence(refusal)
        else:
            return HttpResponseRedirect(reverse("chat:room", args=[group.pk]))
    context = {"why": why, "name": request.POST.get("name", "")}
    return render(request, "chat/rooms.html", context, status=422 if why else 200)


@login_required
@require_safe
@never_cache
def room(request: HttpRequest, group_id: int) -> HttpResponse:
    """A room, live: its messages, who is there, which workers answer. With `before`, earlier messages."""
    group = _room(request, group_id)
    user = people.person(request)
    present = queries.instructions(group.pk)
    context = {
        "group": group,
        "earlier": _earlier(request, group),
        "present": present,
        "may_instruct": operations.may_instruct(group, user=user, present=present),
        "draft": request.session.pop("chat-draft", ""),
        "is_guest": accounts.is_guest(user),
        "message_limit": texts.MESSAGE_LIMIT,
        "instructions_limit": texts.INSTRUCTIONS_LIMIT,
    }
    return render(request, "chat/room.html", context)


def _action(view: Callable[[HttpRequest, int], str]) -> Callable[..., HttpResponse]:
    """Decorate the view of a button, which returns the sentence to show; a refusal is shown likewise."""

    @wraps(view)
    def action(request: HttpRequest, group_id: int) -> HttpResponse:
        try:
            return _result(request, group_id, view(request, group_id), refused=False)
        except NoSuchRoom as refusal:
            raise Http404(refusal.message) from refusal
        except (ChatError, AccountsError, RateLimited, JobsError) as refusal:
            return _result(request, group_id, _sentence(refusal), refused=True)

    return login_required(require_POST(action))


@_action
def post(request: HttpRequest, group_id: int) -> str:
    """Post a message, and have it answered unless the box was unticked."""
    user, text = people.person(request), request.POST.get("text", "")
    request.session["chat-draft"] = text[: texts.MESSAGE_LIMIT]
    key = accounts_http.limit_key(request)
    jobs_http.once(
        request, user, lambda: operations.post(group_id, text, by=user, key=key, asks="ask" in request.POST).pk
    )
    del request.session["chat-draft"]
    return ""


@_action
def cancel(request: HttpRequest, group_id: int) -> str:
    """Do without an answer."""
    canceled = operations.cancel(group_id, _id(request, "answer"), by=people.person(request))
    return _CANCELED[canceled.verdict]


@_action
def ask_again(request: HttpRequest, group_id: int) -> str:
    """Have a question answered once more; the room shows it."""
    key = accounts_http.limit_key(request)
    operations.ask_again(group_id, _id(request, "answer"), by=people.person(request), key=key)
    return ""


@_action
def remove(request: HttpRequest, group_id: int) -> str:
    """Take a message back."""
    operations.remove(group_id, _id(request, "message"), by=people.person(request))
    return "Deleted."


@_action
def instruct(request: HttpRequest, group_id: int) -> str:
    """Write the instructions for the assistant."""
    operations.instruct(group_id, request.POST.get("text", ""), by=people.person(request))
    return "The instructions were saved."


@login_required
@require_POST
@never_cache
@sensitive_variables("key", "command")
def connect_worker(request: HttpRequest, group_id: int) -> HttpResponse:
    """Make a worker of one's own; its key is in the answer, this once."""
    group, user = _room(request, group_id), people.person(request)
    if accounts.is_guest(user):
        return _result(request, group_id, "Guests cannot connect workers: sign up first.", refused=True)
    try:
        name, key = operations.connect_worker(group_id, request.POST.get("name", ""), by=user)
    except InvalidValue as refusal:
        return _result(request, group_id, refusal.message, refused=True)
    farm = request.build_absolute_uri("/").rstrip("/")
    command = f"python -m jobfarm_worker --url {farm} --key {key} --handler chat"
    context = {"group": group, "name": name, "key": key, "command": command, "ollama": OLLAMA}
    return render(request, "chat/worker_key.html", context)


def _room(request: HttpRequest, group_id: int) -> Group:
    try:
        return operations.room(group_id, by=people.person(request))
    except NoSuchRoom as refusal:
        raise Http404(refusal.message) from refusal


def _earlier(request: HttpRequest, group: Group) -> dict[str, Any] | None:
    before = request.GET.get("before", "")
    if not before:
        return None
    if not (before.isascii() and before.isdigit() and 0 < int(before[:20]) <= BIGGEST_ID):
        raise Http404("There is no such message.")
    page = queries.page(group.pk, before=int(before))
    return {"entries": [live_queries.entry(message) for message in page.messages], "older": page.older}


def _id(request: HttpRequest, name: str) -> int:
    text = request.POST.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    return number if number <= BIGGEST_ID else 0  # which no message has


def _sentence(refusal: ChatError | AccountsError | RateLimited | JobsError) -> str:
    if not isinstance(refusal, RateLimited):
        return refusal.message
    wait_s = max(1, math.ceil(refusal.retry_after.total_seconds()))
    if refusal.name == limits.TOKENS:
        return f"All the assistant's tokens are in use. Try again in {wait_s} s."
    return f"You are sending messages too fast. Try again in {wait_s} s."


def _result(request: HttpRequest, group_id: int, sentence: str, *, refused: bool) -> HttpResponse:
    """What came of a button: a note in the page that sent it, or a message at the head of the room."""
    if getattr(request, "htmx", False):
        result = {"chat:result": {"sentence": sentence, "refused": refused}}
        return HttpResponse(status=HTTPStatus.NO_CONTENT, headers={"HX-Trigger": json.dumps(result)})
    if sentence:
        messages.add_message(request, messages.ERROR if refused else messages.SUCCESS, sentence)
    return HttpResponseRedirect(reverse("chat:room", args=[group_id]) + "#composer")

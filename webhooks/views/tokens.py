"""Bearer tokens of sandboxes: new ones, shown once, and the end of all of a sandbox."""

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from core import audit, people
from postgres import clock
from webhooks import operations
from webhooks.domain.names import Source
from webhooks.queries import pages
from webhooks.sources import adapters
from webhooks.views import access
from webhooks.views.forms import TokenForm

HOOKS = Source.SANDBOX_HOOKS


@require_POST
@access.operators_only
@sensitive_variables("token")
def create(request: HttpRequest) -> HttpResponse:
    """A token of a sandbox; it is in this answer, and nowhere else."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        for errors in form.errors.values():
            messages.error(request, f"No token was made. {' '.join(map(str, errors))}")
        return redirect("webhooks:source", HOOKS)
    lifetime = form.lifetime()
    expires_at = None if lifetime is None else clock.now() + lifetime
    with transaction.atomic():
        row, token = operations.create_token(form.cleaned_data["sandbox"], expires_at=expires_at)
        audit.record(people.person(request), row, f"Made a token of the sandbox {row.sandbox}")
    url = request.build_absolute_uri(adapters.adapter_of(HOOKS).PATH)
    return render(
        request, "webhooks/token_added.html", {"row": row, "token": token, "url": url, "source": HOOKS}
    )


@require_POST
@access.operators_only
def revoke(request: HttpRequest) -> HttpResponse:
    """Let all tokens of a sandbox open nothing any more."""
    sandbox = request.POST.get("sandbox", "")[:100].replace("\x00", "")
    rows = [row for row in pages.tokens() if row.sandbox == sandbox and row.revoked_at is None]
    if not rows:
        raise Http404("This sandbox has no token.")
    with transaction.atomic():
        count = operations.revoke_tokens(sandbox)
        audit.record(people.person(request), rows[0], f"Revoked {count} tokens of the sandbox {sandbox}")
    messages.success(request, f"{count} token{'' if count == 1 else 's'} of {sandbox} revoked.")
    return redirect("webhooks:source", HOOKS)

"""Second factors: how their secrets are kept, and who is led to one at the log-in."""

import base64
import logging
import secrets
from typing import Any

from allauth.account.internal.decorators import login_stage_required
from allauth.account.internal.flows.login import record_authentication
from allauth.account.stages import LoginStage
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.internal.flows import activate_totp
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.generic import FormView

from accounts import operations
from core.sealing import CannotUnseal

logger = logging.getLogger(__name__)


class Adapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth ships no types
    def encrypt(self, text: str) -> str:
        """As it is stored: who reads the tables makes no code of it."""
        return operations.SEALER.seal(text).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """What was sealed; where that was under another SECRET_KEY, a secret that nobody knows: no code fits it, and
        the pages of second factors go on."""
        try:
            return operations.SEALER.unseal(encrypted_text.encode())
        except CannotUnseal:
            logger.exception(
                "A second factor was sealed under a SECRET_KEY that is not among SECRET_KEY_FALLBACKS: no code fits "
                "it, and an administrator can take it away."
            )
            return base64.b32encode(secrets.token_bytes(20)).decode()

    def can_delete_authenticator(self, authenticator: Any) -> bool:
        """Not the last one of somebody who must have one."""
        others = operations.second_factors(authenticator.user).exclude(pk=authenticator.pk)
        return not operations.must_have_second_factor(authenticator.user) or others.exists()


class SetUpStage(LoginStage):  # type: ignore[misc]
    """The step of a log-in at which somebody sets up a second factor who must have one and has none."""

    key = "set_up_second_factor"
    urlname = "mfa_set_up"

    def handle(self) -> tuple[HttpResponse | None, bool]:
        more = self.login.signal_kwargs or {}  # a provider of single sign-on asks for second factors by its own rules
        must = "sociallogin" not in more and operations.must_have_second_factor(self.login.user)
        has = not must or operations.second_factors(self.login.user).exists()
        return None if has else redirect(self.urlname), True


@method_decorator(login_stage_required(stage=SetUpStage.key, redirect_urlname="account_login"), name="dispatch")
class SetUp(FormView):  # type: ignore[type-arg]  # Django 6 has it plain
    """Set up an authenticator app, and be in with that: before there is no session."""

    template_name = "mfa/totp/activate_form.html"
    form_class = ActivateTOTPForm
    request: Any

    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"user": self.request._login_stage.login.user}  # noqa: SLF001 (how allauth hands it on)

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        context = super().get_context_data(**more)
        adapter, form = Adapter(self.request), context["form"]
        picture = adapter.build_totp_svg(adapter.build_totp_url(form.user, form.secret)).encode()
        address = f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
        return context | {"totp_svg_data_uri": address, "is_log_in": True}

    def form_valid(self, form: Any) -> HttpResponse:
        """In, and to the recovery codes: they have just shown all that these are shown for."""
        stage, self.request.user = self.request._login_stage, form.user  # noqa: SLF001
        record_authentication(self.request, form.user, "mfa", reauthenticated=True)
        activate_totp(self.request, form)
        stage.login.redirect_url = reverse("mfa_view_recovery_codes")
        done: HttpResponse = stage.exit()
        return done

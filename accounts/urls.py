"""Addresses under /accounts/: the farm's own, and those of django-allauth that it has (`of_allauth`)."""

from collections.abc import Iterable, Iterator
from typing import Any

from allauth.account import views as allauth
from allauth.mfa import urls as mfa
from allauth.urls import build_provider_urlpatterns
from allauth.usersessions.views import list_usersessions
from django.conf import settings
from django.urls import URLResolver, include, path, register_converter
from django.urls.converters import StringConverter

from accounts.http import members_only
from accounts.views import account, by_mail, guests, logins, single_sign_on
from core import pages


class _Base36(StringConverter):
    regex = "[0-9A-Za-z]+"


register_converter(_Base36, "base36")


def _of_members(patterns: Iterable[Any]) -> Iterator[Any]:
    """Pages of second factors, which guests have none of; those of the log-in are everybody's."""
    for each in patterns:
        if isinstance(each, URLResolver):
            yield path(str(each.pattern), include(list(_of_members(each.url_patterns))))
        else:
            view = each.callback if each.name in _AT_LOG_IN else members_only(each.callback)
            yield path(str(each.pattern), view, name=each.name)


app_name = "accounts"
_AT_LOG_IN = {"mfa_authenticate", "mfa_login_webauthn", "mfa_trust", "mfa_signup_webauthn"}
of_allauth = [
    path("login/", logins.LogIn.as_view(), name="account_login"),
    path("logout/", single_sign_on.LogOut.as_view(), name="account_logout"),
    path("sign-up/", logins.SignUp.as_view(), name="account_signup"),
    path("inactive/", allauth.account_inactive, name="account_inactive"),
    path("confirm/", members_only(pages.private(allauth.reauthenticate)), name="account_reauthenticate"),
    path("password/", members_only(allauth.password_change), name="account_change_password"),
    path("password/set/", members_only(allauth.password_set), name="account_set_password"),
    path("password/reset/", by_mail(allauth.password_reset), name="account_reset_password"),
    path("password/reset/sent/", by_mail(allauth.password_reset_done), name="account_reset_password_done"),
    path("password/reset/done/", allauth.password_reset_from_key_done, name="account_reset_password_from_key_done"),
    path(
        "password/reset/<base36:uidb36>-<str:key>/",
        allauth.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path("email/", members_only(allauth.email), name="account_email"),
    path("email/sent/", allauth.email_verification_sent, name="account_email_verification_sent"),
    path("email/<str:key>/", allauth.confirm_email, name="account_confirm_email"),
    path("2fa/set-up/", logins.SetUp.as_view(), name="mfa_set_up"),
    path("2fa/", include(list(_of_members(mfa.urlpatterns)))),
    path("oidc/<slug:provider_id>/login/", single_sign_on.log_in, name="openid_connect_login"),
    path("oidc/<slug:provider_id>/login/callback/", single_sign_on.call_back, name="openid_connect_callback"),
    path("sso/", include("allauth.socialaccount.urls")),
    path("sessions/", members_only(list_usersessions), name="usersessions_list"),
]
if settings.SOCIALACCOUNT_PROVIDERS.keys() - {"openid_connect"}:
    of_allauth += build_provider_urlpatterns()
urlpatterns = [
    path("", account.account, name="account"),
    path("link/<str:token>/", logins.OneTimeLinkPage.as_view(), name="one_time_link"),
    path("guest/", guests.ComeAsGuest.as_view(), name="guest"),
    path("guest/<slug:captcha>.png", guests.captcha_picture, name="captcha_picture"),
    path("sessions/<int:session_id>/end/", account.end_session, name="end_session"),
    path("tokens/", account.create_token, name="create_token"),
    path("tokens/<int:token_id>/revoke/", account.revoke_token, name="revoke_token"),
    path("groups/", account.groups, name="groups"),
    path("groups/<int:group_id>/", account.group, name="group"),
    path("groups/<int:group_id>/invite/", account.invite, name="invite"),
    path("groups/<int:group_id>/withdraw/", account.withdraw, name="withdraw_invitation"),
    path("groups/<int:group_id>/remove/", account.remove, name="remove_member"),
    path("groups/<int:group_id>/leave/", account.leave, name="leave_group"),
    path("join/<str:token>/", account.Join.as_view(), name="join"),
]

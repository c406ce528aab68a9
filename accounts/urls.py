"""Addresses under /accounts/."""

from django.urls import path

from accounts.views import account, groups, guests, logins, signup

app_name = "accounts"
urlpatterns = [
    path("", account.account, name="account"),
    path("login/", logins.LogIn.as_view(), name="login"),
    path("logout/", logins.LogOut.as_view(), name="logout"),
    path("link/<str:token>/", logins.OneTimeLinkPage.as_view(), name="one_time_link"),
    path("sign-up/", signup.SignUp.as_view(), name="sign_up"),
    path("guest/", guests.ComeAsGuest.as_view(), name="guest"),
    path("guest/<slug:captcha>.png", guests.captcha_picture, name="captcha_picture"),
    path("password/", account.change_password, name="change_password"),
    path("tokens/", account.create_token, name="create_token"),
    path("tokens/<int:token_id>/revoke/", account.revoke_token, name="revoke_token"),
    path("groups/", groups.groups, name="groups"),
    path("groups/<int:group_id>/", groups.group, name="group"),
    path("groups/<int:group_id>/invite/", groups.invite, name="invite"),
    path("groups/<int:group_id>/withdraw/", groups.withdraw, name="withdraw_invitation"),
    path("groups/<int:group_id>/remove/", groups.remove, name="remove_member"),
    path("groups/<int:group_id>/leave/", groups.leave, name="leave_group"),
    path("join/<str:token>/", groups.Join.as_view(), name="join"),
]

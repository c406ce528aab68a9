"""Where people meet the limits of the product: the navigation, and the form of a kind."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from jobs.models import Kind
from tests.jobs.limits.integration.sample import SOME_DEBT, TEN

pytestmark = pytest.mark.django_db(transaction=True)


def browser(user: User) -> Client:
    """Somebody's browser."""
    client = Client()
    client.force_login(user)
    return client


class TestTheNavigation:
    LINK = 'href="/limits/"'

    def test_leads_to_the_limits_who_may_see_them_and_nobody_else(self) -> None:
        member, watcher = (User.objects.create_user(name) for name in ("ada", "oscar"))
        watcher.user_permissions.add(Permission.objects.get(codename="view_bucket"))
        root = User.objects.create_superuser("root")
        assert [self.LINK in browser(user).get("/").text for user in (member, watcher, root)] == [False, True, True]
        assert self.LINK not in Client().get("/accounts/login/").text

    def test_marks_the_page_that_is_shown(self) -> None:
        page = browser(User.objects.create_superuser("root")).get("/limits/").text
        assert f'{self.LINK} aria-current="page"' in page


class TestTheFormOfAKind:
    PATH = "/admin/jobs/kind/add/"
    FIELDS = {
        "name": "paced", "queue": "paced", "priority": "0", "max_attempts": "2", "backoff_first_s": "1",
        "backoff_base": "2", "backoff_cap_s": "60", "timeout_s": "", "expires_s": "",
        "limit": TEN, "limit_count": "2.5", "limit_key": "owner", "on_overflow": "wait",
    }  # fmt: skip

    @pytest.fixture
    def page(self) -> Client:
        """The browser of somebody who may do everything."""
        return browser(User.objects.create_superuser("root"))

    def test_offers_the_limits_that_are_declared_and_keeps_the_one_that_was_chosen(self, page: Client) -> None:
        assert f'<option value="{TEN}">' in page.get(self.PATH).text
        assert page.post(self.PATH, self.FIELDS).status_code == 302
        assert Kind.objects.values_list("limit", "limit_count", "limit_key").get() == (TEN, 2.5, "owner")
        assert page.post("/admin/jobs/kind/paced/change/", self.FIELDS | {"limit": ""}).status_code == 302
        assert Kind.objects.get().limit is None

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"limit": "nobody"}, "nobody is not one of the available choices"),
            ({"limit_count": "0"}, "The number of tokens is positive and finite."),
            ({"limit": SOME_DEBT, "limit_count": "6"}, "can never grant 6 at once"),
        ],
    )
    def test_refuses_a_limit_that_could_never_grant_a_job(self, page: Client, fields: dict[str, str], why: str) -> None:
        answer = page.post(self.PATH, self.FIELDS | fields)
        assert (answer.status_code, Kind.objects.count()) == (200, 0)
        assert why in str(answer.context["adminform"].form.errors)

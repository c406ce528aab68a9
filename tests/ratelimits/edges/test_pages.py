"""The pages and the admin of limits."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from live.registry import Viewer
from ratelimits import live_queries, operations
from ratelimits.models import Bucket
from ratelimits.operations import TokenBucket
from tests.live.integration.support import listening

pytestmark = pytest.mark.django_db(transaction=True)
LONG = timedelta(days=1000)
NAMED = operations.declare("test/page", TokenBucket(10, LONG))


@pytest.fixture
def page() -> Client:
    """The browser of somebody who may do everything."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def guest() -> Client:
    """The browser of a member."""
    client = Client()
    client.force_login(User.objects.create_user("ada"))
    return client


def text(answer: Any) -> str:
    """What a page says, without its markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


class TestAKeyThatIsAnAccountsNumber:
    def test_shows_whose_it_is_wherever_it_is_shown(self, page: Client) -> None:
        ada = User.objects.create_user("ada lovelace")
        for key in (f"user:{ada.pk}", "user:999999", "user:ada@example.org"):
            operations.limit(NAMED, key=key, count=9)
        for url in ("/limits/", f"/limits/one/?name={NAMED}&key=user:{ada.pk}", "/", "/admin/ratelimits/bucket/"):
            assert text(page.get(url)).count("ada lovelace") == 1, url


class TestTheList:
    def test_shows_what_each_key_holds_those_most_used_first(self, page: Client) -> None:
        operations.limit(NAMED, key="<b>ada</b>", count=2.5)
        operations.limit(NAMED, key="bob", count=9)
        operations.limit(
            "test/sharded", config=TokenBucket(6, timedelta(days=500), shards=3, max_reserved=9), count=8, reserve=True
        )
        answer = page.get("/limits/")
        shown = text(answer)
        assert answer.status_code == 200
        assert shown.index("bob") < shown.index("test/sharded") < shown.index("&lt;b&gt;ada")
        assert "1 of 10" in shown
        assert "7.5 of 10" in shown
        assert "-2 of 6" in shown
        assert "6 every 500 days" in shown
        assert "test/page 10 every 1,000 days (token bucket)" in shown

    def test_can_be_searched(self, page: Client) -> None:
        operations.limit(NAMED, key="ada")
        operations.limit(NAMED, key="bob")
        assert "bob" not in text(page.get("/limits/?search=ADA"))
        assert "No match" in text(page.get("/limits/?search=%25&name=test/page"))
        assert page.get("/limits/?search=%00&name=nobody").status_code == 200

    def test_says_so_when_every_limit_is_full(self, page: Client) -> None:
        assert "No limit is in use" in text(page.get("/limits/"))

    def test_reads_the_limits_once_however_many_there_are(
        self, page: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for n in range(30):
            operations.limit(NAMED, key=str(n))
        with django_assert_max_num_queries(6):  # the session, the person, their rights, the limits
            page.get("/limits/")

    def test_has_itself_read_again_while_it_is_open(self, page: Client) -> None:
        address = re.search(rb'hx-get="([^"]+)" hx-trigger="every 2s"', page.get("/limits/").content)
        assert address
        with listening() as notifications:
            assert page.get(address[1].decode()).status_code == 204
            assert {topic for payload in notifications() for topic in json.loads(payload)["message"]["topics"]} == {
                "limits"
            }


class TestOne:
    def test_shows_a_limit_and_key_and_resets_it(self, page: Client) -> None:
        operations.limit(NAMED, key="a&b", count=4)
        assert "Tokens 6 of 10" in text(page.get("/limits/one/", {"name": NAMED, "key": "a&b"}))
        answer = page.post("/limits/reset/", {"name": NAMED, "key": "a&b"}, follow=True)
        assert "The limit was reset: all its tokens are available." in text(answer)
        assert "Not in use: all tokens are available (10 every 1,000 days" in text(answer)
        assert not Bucket.objects.exists()
        assert LogEntry.objects.get().change_message == "Reset."
        again = page.post("/limits/reset/", {"name": NAMED, "key": "a&b"}, follow=True)
        assert "There was nothing to reset" in text(again)

    def test_of_a_limit_that_there_is_not_says_no_more_than_that_it_is_full(self, page: Client) -> None:
        assert "Not in use: all tokens are available." in text(
            page.get("/limits/one/", {"name": "\x00", "key": "x" * 5000})
        )


class TestWhoMay:
    @pytest.mark.parametrize("path", ["/limits/", "/limits/one/?name=test/page", "/limits/refresh/"])
    def test_see_is_who_may_view_the_table(self, guest: Client, path: str) -> None:
        """Keys are people's names and addresses."""
        assert guest.get(path).status_code == 403
        assert Client().get(path).status_code == 302
        User.objects.get().user_permissions.add(Permission.objects.get(codename="view_bucket"))
        assert guest.get(path).status_code in {200, 204}
        assert guest.post("/limits/reset/", {"name": NAMED}).status_code == 403

    def test_watch_is_the_same(self) -> None:
        assert live_queries.limits.audience(Viewer(user=User.objects.create_user("ada")), {}) is None
        assert live_queries.limits.audience(Viewer(user=User.objects.create_superuser("root")), {}) == "operator"


class TestTheAdmin:
    def test_lists_the_states_with_gauges(self, page: Client) -> None:
        operations.limit(NAMED, key="ada", count=4)
        shown = text(page.get("/admin/ratelimits/bucket/?q=ada"))
        assert "6 of 10" in shown
        row = Bucket.objects.get()
        assert "6 of 10" in text(page.get(f"/admin/ratelimits/bucket/{row.pk}/change/"))

    def test_resets_keys_with_all_their_shards(self, page: Client) -> None:
        sharded = TokenBucket(8, LONG, shards=4)
        operations.limit("test/sharded", key="ada", count=8, config=sharded)
        operations.limit(NAMED, key="bob")
        chosen = Bucket.objects.filter(key="ada").first()
        assert chosen
        shown = {"action": "reset", "_selected_action": [chosen.pk]}
        assert page.post("/admin/ratelimits/bucket/", shown).context["lines"] == ["test/sharded ada"]
        assert Bucket.objects.filter(key="ada").exists()
        answer = page.post("/admin/ratelimits/bucket/", {**shown, "confirmed": "yes"}, follow=True)
        assert "1 reset" in text(answer)
        assert set(Bucket.objects.values_list("key", flat=True)) == {"bob"}

    def test_neither_makes_nor_changes_nor_deletes_single_rows(self, page: Client) -> None:
        operations.limit(NAMED)
        assert page.get("/admin/ratelimits/bucket/add/").status_code == 403
        row = Bucket.objects.get()
        assert page.post(f"/admin/ratelimits/bucket/{row.pk}/delete/", {"post": "yes"}).status_code == 403
        assert "Delete selected" not in text(page.get("/admin/ratelimits/bucket/"))
        assert Bucket.objects.exists()


@pytest.mark.parametrize(
    "spoilt", [{"period_ms": 0}, {"rate": "NaN"}, {"rate": 1e308}, {"most": "Infinity"}, {"period_ms": 1e300}, {}]
)
def test_a_state_that_cannot_be_computed_is_shown_as_it_is_beside_the_others(page: Client, spoilt: Any) -> None:
    for key, period in (("ada", timedelta.max), ("bob", LONG)):
        operations.limit("test/forever", key=key, count=9, config=TokenBucket(10, period))
    Bucket.objects.filter(key="ada").update(**spoilt)
    for url in ("/limits/", "/limits/one/?name=test/forever&key=bob", "/admin/ratelimits/bucket/"):
        assert "bob" in text(page.get(url)), url

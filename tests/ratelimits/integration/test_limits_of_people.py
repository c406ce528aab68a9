"""Named limits that people make in the administration."""

import math
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client

from jobs import operations as jobs
from jobs.errors import InvalidValue
from jobs.models import Job
from ratelimits import limits, operations, operations as ratelimits, queries
from ratelimits.errors import DeclaredLimit, InvalidConfig, InvalidName, UnknownLimit
from ratelimits.models import Bucket, Limit
from tests import farm

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
FORM = {"name": "rented api", "rate": "2", "period_s": "3600", "capacity": "", "max_reserved": ""}
ADD = "/admin/ratelimits/limit/add/"


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    """A process that has read none yet."""
    operations._read.clear()


class TestALimitOfAPerson:
    def test_is_asked_by_its_name(self) -> None:
        ratelimits.make("rented api", ratelimits.TokenBucket(rate=2, period=MINUTE))
        assert [bool(ratelimits.limit("rented api", key="k")) for _ in range(3)] == [True, True, False]
        assert "rented api" in ratelimits.everything()

    def test_may_be_a_window(self) -> None:
        ratelimits.make("rented api", ratelimits.FixedWindow(rate=5, period=MINUTE, capacity=9, max_reserved=3))
        again = ratelimits.FixedWindow(rate=5, period=MINUTE, capacity=9, max_reserved=3)
        assert ratelimits.config_of("rented api") == again

    def test_is_read_once_in_some_seconds(self, django_assert_num_queries: object) -> None:
        ratelimits.make("rented api", ratelimits.TokenBucket(rate=2, period=MINUTE))
        ratelimits.config_of("rented api")
        with django_assert_num_queries(0):  # type: ignore[operator]  # pytest-django's fixture
            ratelimits.config_of("rented api")

    def test_that_another_process_changed_counts_when_it_is_no_longer_fresh(self) -> None:
        ratelimits.make("rented api", ratelimits.TokenBucket(rate=2, period=MINUTE))
        assert ratelimits.config_of("rented api").rate == 2
        Limit.objects.update(rate=7)
        assert ratelimits.config_of("rented api").rate == 2
        operations._read.clear()
        assert ratelimits.config_of("rented api").rate == 7

    def test_gives_way_to_one_that_code_declares(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ratelimits.make("rented api", ratelimits.TokenBucket(rate=2, period=MINUTE))
        of_code = ratelimits.TokenBucket(rate=50, period=MINUTE)
        monkeypatch.setattr(limits, "_declared", {"rented api": of_code})
        assert ratelimits.config_of("rented api") == of_code
        with pytest.raises(DeclaredLimit, match="declared in code"):
            ratelimits.make("rented api", ratelimits.TokenBucket(rate=2, period=MINUTE))

    def test_is_refused_where_a_row_cannot_hold_it(self) -> None:
        with pytest.raises(InvalidName):
            ratelimits.make(" x", ratelimits.TokenBucket(rate=2, period=MINUTE))
        with pytest.raises(InvalidConfig):
            ratelimits.make("rented api", ratelimits.TokenBucket(rate=2, period=MINUTE, shards=4))
        with pytest.raises(UnknownLimit):
            ratelimits.config_of("rented api")

    def test_holds_back_the_jobs_of_a_kind_that_names_it(self) -> None:
        with pytest.raises(InvalidValue):
            farm.kind(limit="rented api")
        ratelimits.make("rented api", ratelimits.TokenBucket(rate=1, period=timedelta(hours=1)))
        farm.kind(limit="rented api")
        first, second = (jobs.submit("work", {}) for _ in range(2))
        waits = [job.limit_until is not None and job.limit_until > farm.now() for job in (first, second)]
        assert (waits, Job.objects.count()) == ([False, True], 2)


class TestTheAdministration:
    @pytest.fixture
    def root(self) -> Client:
        """Who may do everything."""
        client = Client()
        client.force_login(farm.user("root", is_staff=True, is_superuser=True))
        return client

    def test_makes_one_and_changes_it_and_leaves_lines(
        self, root: Client, django_capture_on_commit_callbacks: object
    ) -> None:
        with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
            assert root.post(ADD, FORM).status_code == 302
        assert ratelimits.config_of("rented api") == ratelimits.TokenBucket(rate=2, period=timedelta(hours=1))
        address = "/admin/ratelimits/limit/rented api/change/"
        with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
            answer = root.post(address, FORM | {"rate": "3", "is_window": "on", "capacity": "6"})
        assert answer.status_code == 302
        changed = ratelimits.FixedWindow(rate=3, period=timedelta(hours=1), capacity=6)
        assert ratelimits.config_of("rented api") == changed
        lines = [line.get_change_message() for line in LogEntry.objects.order_by("pk")]
        assert (lines[0], len(lines)) == ("Added.", 2)
        assert "Rate" in lines[1]
        assert "rented api" in root.get("/limits/").content.decode()

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"name": " "}, "This field is required"),
            ({"name": "a?"}, "cannot name a limit"),
            ({"name": "log-in"}, "declared in code and cannot be changed here"),
            ({"rate": "0"}, "cannot be a rate limit: rate"),
            ({"period_s": "-1"}, "cannot be a rate limit: period"),
            ({"period_s": "1e300"}, "cannot be a rate limit: period"),
            ({"capacity": "-1"}, "cannot be a rate limit: capacity"),
        ],
    )
    def test_says_what_is_wrong(self, root: Client, change: dict[str, str], sentence: str) -> None:
        answer = root.post(ADD, FORM | change)
        assert (answer.status_code, sentence in answer.content.decode()) == (200, True)
        assert not Limit.objects.exists()

    def test_offers_it_to_kinds(self, root: Client) -> None:
        ratelimits.make("rented api", ratelimits.TokenBucket(rate=2, period=MINUTE))
        assert '<option value="rented api"' in root.get("/admin/jobs/kind/add/").content.decode()

    def test_is_for_those_with_the_right(self) -> None:
        user = farm.user("oscar", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename="view_limit"))
        client = Client()
        client.force_login(user)
        assert client.get("/admin/ratelimits/limit/").status_code == 200
        assert client.post(ADD, FORM).status_code == 403


class TestABrokenOne:
    def test_is_put_aside_with_its_reason_and_the_others_are_asked(self) -> None:
        for name in ("broken", "whole"):
            ratelimits.make(name, ratelimits.TokenBucket(rate=2, period=MINUTE))
        Limit.objects.filter(pk="broken").update(period_s=-1)
        operations._read.clear()
        assert ratelimits.limit("whole").ok
        assert ("broken" in ratelimits.everything(), "whole" in ratelimits.everything()) == (False, True)
        with pytest.raises(InvalidConfig):
            ratelimits.limit("broken")
        client = Client()
        client.force_login(farm.user("root", is_staff=True, is_superuser=True))
        assert "Cannot be used: This cannot be a rate limit: period is" in client.get("/limits/").content.decode()
        for page in ("/admin/ratelimits/limit/", "/admin/ratelimits/limit/broken/change/", "/admin/jobs/kind/add/"):
            assert client.get(page).status_code == 200, page

    def test_state_is_forgotten_and_keeps_no_other_from_being_forgotten(self) -> None:
        far = {"ts": -(2**63)}, {"ts": 2**63 - 1}
        endless = ({"period_ms": period, "is_window": True} for period in (math.nan, math.inf, 1e300))
        states: list[dict[str, Any]] = [{"period_ms": 0}, {"rate": 1e308}, *far, *endless]
        for broken in states:
            for key in ("broken", "whole"):
                ratelimits.limit("x", key=key, config=ratelimits.TokenBucket(rate=1, period=timedelta(microseconds=1)))
            Bucket.objects.filter(key="broken").update(**broken)
            assert {gauge.key for gauge in queries.gauges(limit=9)[0]} == {"broken", "whole"}, broken
            farm.until(lambda: farm.retain("limits that are full") or not Bucket.objects.exists(), what="it is full")

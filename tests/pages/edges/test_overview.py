"""The overview: what operators see of the farm, and that nobody else does."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser, Permission
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils.module_loading import autodiscover_modules

from examples import config as examples
from jobfarm import live_queries
from jobs import operations
from jobs.domain.states import Status
from jobs.live_queries import farm as farm_queries
from jobs.models import Job, RollupWatermark
from jobs.queries import fleet, gauges, rollups
from live import registry
from live.registry import Viewer
from ratelimits import operations as ratelimits
from ratelimits.operations import TokenBucket
from scheduling import operations as scheduling
from scheduling.domain.schedules import Policy
from scheduling.models import Cron
from tests import farm
from tests.pages.edges.conftest import Browse, Farm
from webhooks.domain.deliveries import Source
from webhooks.queries import inbox

MOST_STATEMENTS = 26  # of the overview as who may see all of it sees it, without what doctor warns of
SUBMIT = "jobs.operations.from_crons.submit_job"
pytestmark = pytest.mark.django_db

OPERATORS_ALONE = ("overview-warnings", "overview-processes")
WITH_A_RIGHT = {
    "overview-crons": "view_scheduledfunction",
    "overview-limits": "view_bucket",
    "overview-webhooks": "view_delivery",
}


def groups(page: str) -> dict[str, str]:
    """How many jobs arrived, by what the charts are grouped by."""
    row = r'data-key="(?:Tag|Owner) ([^"]+)".*?data-label="Arrived"[^>]*>([^<]*)'
    return dict(re.findall(row, page, re.DOTALL))


def _audience(name: str, user: object) -> str | None:
    query = registry.find(name)
    viewer = Viewer(user=user)  # type: ignore[arg-type]  # people and AnonymousUser alike
    return query.audience(viewer, query.checked({}))


class TestRights:
    @pytest.mark.parametrize("name", OPERATORS_ALONE)
    def test_of_the_whole_farm_are_the_operators(self, little_farm: Farm, name: str) -> None:
        people = (AnonymousUser(), little_farm.ada, little_farm.bob, little_farm.oscar)
        assert [_audience(name, person) for person in people] == [None, None, None, "operator"]

    @pytest.mark.parametrize(("name", "right"), WITH_A_RIGHT.items())
    def test_of_other_apps_are_those_of_their_own_pages(self, little_farm: Farm, name: str, right: str) -> None:
        permission = Permission.objects.get(codename=right)
        assert _audience(name, little_farm.oscar) is None
        for person in (little_farm.ada, little_farm.oscar):
            person.user_permissions.add(permission)
        oscar = type(little_farm.oscar).objects.get(pk=little_farm.oscar.pk)  # rights are remembered by the object
        ada = type(little_farm.ada).objects.get(pk=little_farm.ada.pk)
        assert (_audience(name, oscar), _audience(name, ada)) == ("operator", None)

    def test_a_member_is_shown_nothing_of_them(self, browse: Browse, little_farm: Farm) -> None:
        operations.roll_up()
        page = browse(little_farm.ada).get("/?period=week").content.decode()
        for name in (*OPERATORS_ALONE, *WITH_A_RIGHT):
            assert f'data-live="{name}"' not in page


class TestTheInbox:
    def test_says_how_many_requests_of_each_source_were_refused(self, browse: Browse, little_farm: Farm) -> None:
        for times in (2, 1):
            inbox.count_refusal(
                source=Source.GITHUB, reason="bad_signature", address=None, size=1, header_names=(), times=times
            )
        boss = farm.user("boss", is_superuser=True, is_staff=True)
        assert "github 3" in browse(boss).get("/").content.decode()


class TestCharts:
    @pytest.fixture
    def counted(self, little_farm: Farm) -> None:
        """One job that succeeded and one that failed, counted."""
        for outcome in (farm.succeed, lambda by, claimed: farm.fail(by, claimed, retryable=False)):
            operations.submit("image", {}, owner=little_farm.ada)
            operations.cancel(little_farm.job.pk, by=None)
            outcome(little_farm.worker, farm.claim_one(little_farm.worker))
        operations.roll_up()

    @pytest.mark.parametrize("period", ["hour", "day", "week"])
    @pytest.mark.usefixtures("counted")
    def test_are_drawn_and_said_in_words_and_in_a_table(self, browse: Browse, little_farm: Farm, period: str) -> None:
        page = browse(little_farm.oscar).get(f"/?period={period}").content.decode()
        words = " ".join(page.split())
        assert f"Jobs in the last {period}: 3 arrived, 1 success, 1 failed or timed out, 1 canceled." in words
        assert re.search(r'aria-label="Run: p50 [\d.]+ m?s, p95 [\d.]+ m?s', page)
        row = re.search(r'data-key="Queue image".*?</tr>', page, re.DOTALL)
        assert row
        cells = re.findall(r'data-label="(\w+)"[^>]*>(?:<span[^>]*>.*?</svg>)?(?:<[^>]*>)?([^<]*)', row[0])
        assert dict(cells) | {"Failed": "50 %"} == {"Arrived": "2", "Ended": "2", "Failed": "50 %"}
        assert "50 %" in row[0]
        assert "style=" not in page

    @pytest.mark.usefixtures("counted")
    def test_have_the_p99_of_waits_and_runs_of_each_queue(self, browse: Browse, little_farm: Farm) -> None:
        page = browse(little_farm.oscar).get("/").content.decode()
        row = re.search(r'data-key="Queue image".*?</tr>', page, re.DOTALL)
        assert row
        time = r"[\d.]+ m?s"
        for title in ("Wait", "Run"):
            assert re.search(rf'"{title} p50 · p95 · p99"[^>]*>\s*{time} · {time} · {time}\s', row[0])

    @pytest.mark.usefixtures("counted")
    def test_have_each_kind_with_a_link_to_its_jobs(self, browse: Browse, little_farm: Farm) -> None:
        page = browse(little_farm.oscar).get("/").content.decode()
        row = re.search(r'data-key="Kind image".*?</tr>', page, re.DOTALL)
        assert row
        assert 'href="/jobs/?kind=image"' in row[0]
        assert len(re.findall(r"[\d.]+ m?s · [\d.]+ m?s · [\d.]+ m?s", row[0])) == 2

    @pytest.mark.usefixtures("counted")
    def test_show_steps_that_nobody_counted_as_such(
        self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rollups, "began_at", lambda: farm.now() - timedelta(days=30))
        client = browse(little_farm.oscar)
        page = client.get("/").content.decode()
        assert (f'data-counted="{"1" * 60}"' in page, "Not counted" in page) == (True, False)
        monkeypatch.setattr(rollups, "began_at", lambda: farm.now() - timedelta(minutes=10))
        page = client.get("/").content.decode()
        assert (f'data-counted="{"0" * 49}{"1" * 11}"' in page, "Not counted" in page) == (True, True)

    def test_that_have_nothing_to_draw_say_what_would_fill_them(self, browse: Browse, little_farm: Farm) -> None:
        page = browse(little_farm.oscar).get("/?period=eternity").content.decode()
        assert "No job arrived or ended in the last hour." in page
        assert "as long as a cluster runs" in page

    def test_say_nothing_of_clusters_to_who_runs_none(self, browse: Browse, little_farm: Farm) -> None:
        page = browse(little_farm.eve).get("/").content.decode()
        assert ("No job arrived or ended in the last hour." in page, "a cluster runs" in page) == (True, False)

    @pytest.mark.usefixtures("counted")
    def test_that_stand_still_say_so(self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those of a farm where nothing happened are not behind."""
        client = browse(little_farm.oscar)
        assert "The charts were last updated" not in client.get("/").content.decode()
        RollupWatermark.objects.update(counted_at=F("counted_at") - timedelta(minutes=20))
        assert "The charts were last updated" not in client.get("/").content.decode(), "nothing is to be counted"
        monkeypatch.setattr(farm_queries, "STALE", timedelta())
        assert "The charts were last updated" in client.get("/").content.decode()

    def test_are_those_of_the_jobs_of_one_tag(self, browse: Browse, little_farm: Farm) -> None:
        operations.submit(little_farm.job.kind, None, owner=little_farm.ada, tags=["nightly:7"])
        page = browse(little_farm.oscar).get("/?period=day&tag=nightly:7").content.decode()
        words = " ".join(page.split())
        assert "The last day of nightly:7" in words
        assert "Jobs in the last day: 1 arrived, 0 success, 0 failed or timed out, 0 canceled." in words
        assert "?period=week&amp;tag=nightly%3A7#charts" in page
        assert "No job of the tag other arrived" in " ".join(
            browse(little_farm.oscar).get("/?tag=other").content.decode().split()
        )

    def test_are_grouped_by_tag_or_by_owner_for_operators(self, browse: Browse, little_farm: Farm) -> None:
        for owner, tags in ((little_farm.ada, ["a:1", "b"]), (little_farm.bob, ["b"]), (None, [])):
            operations.submit(little_farm.job.kind, None, owner=owner, tags=tags)
        operations.roll_up()
        client = browse(little_farm.oscar)
        assert groups(client.get("/?by=tag").content.decode()) == {"b": "2", "a:1": "1"}
        assert groups(client.get("/?by=tag&tag=a:1").content.decode()) == {"b": "1", "a:1": "1"}
        assert groups(client.get("/?by=owner&period=week").content.decode())["nobody"] == "1"
        assert {"ada", "bob"} <= groups(client.get("/?by=owner").content.decode()).keys()
        page = client.get("/?by=tag&period=day").content.decode()
        assert 'href="?by=tag&amp;period=week#charts"' in page
        assert 'href="/jobs/?tag=a%3A1"' in page
        assert groups(client.get("/?by=nothing").content.decode()) == {}

    def test_of_jobs_that_have_no_tags_say_so(self, browse: Browse, little_farm: Farm) -> None:
        operations.submit(little_farm.job.kind, None)
        operations.roll_up()
        page = browse(little_farm.oscar).get("/?by=tag").content.decode()
        assert (groups(page), "No job of the last hour has one." in page) == ({}, True)

    def test_of_a_member_are_of_their_own_jobs_alone_and_name_nobody_elses_tags(
        self, browse: Browse, little_farm: Farm
    ) -> None:
        operations.submit(little_farm.job.kind, None, owner=little_farm.ada, tags=["mine", "shared"])
        operations.submit(little_farm.job.kind, None, owner=little_farm.bob, tags=["his", "shared"])
        ada = browse(little_farm.ada)
        assert groups(ada.get("/?by=tag").content.decode()) == {"mine": "1", "shared": "1"}
        assert "1 arrived, 0 success" in " ".join(ada.get("/?tag=shared").content.decode().split())
        assert "No job of the tag his arrived" in " ".join(ada.get("/?tag=his").content.decode().split())
        page = ada.get("/?by=owner").content.decode()
        assert (groups(page), "bob" in page) == ({}, False)

    def test_break_no_page_with_an_unknown_period(self, browse: Browse, little_farm: Farm) -> None:
        query = registry.find("overview-charts")
        assert isinstance(query, registry.StateQuery)
        context = query.read(whose=0, period="x" * 900)
        assert context is not None
        assert context["period"].code == "hour"


class TestSuccess:
    @pytest.fixture
    def ended(self, little_farm: Farm) -> None:
        """One canceled, thirty successes, then two failures: of the last twenty, a tenth failed."""
        worker, owner = little_farm.worker, little_farm.ada
        operations.cancel(little_farm.job.pk, by=None)
        for number in range(32):
            operations.submit("image", {}, owner=owner)
            claimed = farm.claim_one(worker)
            if number < 30:
                farm.succeed(worker, claimed)
            else:
                farm.fail(worker, claimed, retryable=False)
        operations.roll_up()

    @pytest.mark.usefixtures("ended")
    def test_of_the_tile_the_chart_and_the_lists_is_one_number(self, browse: Browse, little_farm: Farm) -> None:
        page = " ".join(browse(little_farm.oscar).get("/").content.decode().split())
        assert "Success in the last hour · of 32 jobs" in page
        assert '<dd class="value"> 94 % </dd>' in page
        assert "30 success, 2 failed or timed out, 1 canceled." in page
        assert Job.objects.ended(Status.SUCCESS).count() == 30
        assert Job.objects.ended(Status.FAILED, Status.TIMED_OUT).count() == 2

    @pytest.mark.usefixtures("ended")
    def test_of_a_member_says_of_which_jobs_it_is(self, browse: Browse, little_farm: Farm) -> None:
        page = " ".join(browse(little_farm.ada).get("/").content.decode().split())
        assert re.search(r"Success of your last \d+ jobs", page)
        assert "Success in the last hour" not in page


class TestStates:
    def test_are_counted_apart_and_lead_to_their_jobs(self, browse: Browse, little_farm: Farm) -> None:
        later = operations.submit("chat", {}, run_at=farm.now().replace(year=2100))
        page = browse(little_farm.oscar).get("/").content.decode()
        found = re.findall(r'\?status=([^"]+)">\s*<span class="soft">([^<]*)</span> <strong[^>]*>([^<]*)', page)
        assert found[:3] == [
            ("pending&amp;due=now", "Pending, due now", "1"), ("pending&amp;due=later", "Pending, due later", "1"),
            ("in_progress", "In progress", "0"),
        ]  # fmt: skip
        lists = [browse(little_farm.oscar).get(f"/jobs/?status=pending&due={due}") for due in ("now", "later")]
        assert [re.findall(r'data-key="j(\d+)"', each.content.decode()) for each in lists] == [
            [str(little_farm.job.pk)], [str(later.pk)],
        ]  # fmt: skip
        assert [title for _, title, _ in found[3:]] == ["Failed", "Timed out", "Canceled", "Success"]


class TestNumbers:
    def test_that_stand_for_one_thing_are_one_number(
        self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (gauges, fleet):
            monkeypatch.setattr(module, "COUNTED", 3)
        operations.submit("chat", {}, run_at=farm.now().replace(year=2100))
        client = browse(little_farm.oscar)
        for waiting in ("2", "3", "3+", "3+"):
            page = client.get("/").content.decode()
            tile = re.search(r'Pending</dt><dd class="value"><a[^>]*>([^<]*)', page)
            row = re.search(r'data-key="qchat".*?data-label="Pending"[^>]*><a[^>]*>([^<]*)', page, re.DOTALL)
            assert tile
            assert row
            assert (tile[1], row[1]) == (waiting, waiting)
            operations.submit("chat", {})

    def test_of_workers_count_each_of_them_and_say_which_are_drained(
        self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fleet, "MOST_WORKERS", 1)
        other = farm.worker("w2", "chat")
        operations.seen([little_farm.worker.pk, other.pk])
        operations.drain(other, by=None)
        page = " ".join(browse(little_farm.oscar).get("/").content.decode().split())
        drained = '<a href="/workers/">2</a> <span class="soft small">of 2, 1 drained</span>'
        assert f'Live workers</dt> <dd class="value">{drained}' in page

    def test_cost_few_statements(self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(live_queries, "warnings", list)  # a process reads them once for all who watch
        client = browse(farm.user("root", is_staff=True, is_superuser=True))
        client.get("/")
        with CaptureQueriesContext(connection) as captured:
            client.get("/")
        assert 10 < len(captured) <= MOST_STATEMENTS, len(captured)


class TestAWorkerWithManyJobs:
    def test_shows_some_of_them_and_leads_to_the_others(self, browse: Browse, little_farm: Farm) -> None:
        operations.submit_many([operations.NewJob(kind="chat", payload={}) for _ in range(4)])
        held = operations.claim(little_farm.worker, limit=5)
        assert len(held) == 5
        client = browse(little_farm.oscar)
        for path, most in (("/", farm_queries.JOBS_OF_EACH), ("/workers/", farm_queries.JOBS_OF_EACH)):
            page = client.get(path).content.decode()
            assert len(re.findall('class="doing"', page)) == most
            assert 'href="/jobs/?status=in_progress&amp;worker=w1">and 2 more</a>' in page
        page = client.get(f"/workers/{little_farm.worker.pk}/").content.decode()
        assert len(re.findall('class="doing"', page)) == 5


class TestWarnings:
    @pytest.fixture(autouse=True)
    def _fresh(self) -> Iterator[None]:
        """What was found for another test is not what these read, nor the other way round."""
        live_queries.warnings.forget()
        yield
        live_queries.warnings.forget()

    def test_are_those_of_doctor_the_worst_first(self, browse: Browse, little_farm: Farm) -> None:
        operations.pause("chat")
        claimed = farm.claim_one(little_farm.worker) if farm.submit(1, "image") else None
        assert claimed is not None
        farm.pass_time(claimed, 3600)
        page = browse(little_farm.oscar).get("/").content.decode()
        warnings = re.findall(r'<div class="notice (\w+)">\s*<p>\s*<strong>([^<]*)', page)
        assert warnings == sorted(warnings, key=lambda warning: warning[0] != "bad")
        assert ("late", "Jobs are pending in the queue chat, which is paused.") in warnings
        assert any(mood == "bad" and "past its lease" in sentence for mood, sentence in warnings)

    def test_are_looked_for_once_for_all_who_watch(self, little_farm: Farm) -> None:
        first = live_queries.warnings()
        operations.pause("chat")
        assert live_queries.warnings() is first
        live_queries.warnings.forget()
        assert live_queries.warnings() != first


class TestWhatIsWatched:
    @pytest.fixture(autouse=True)
    def _rights(self, little_farm: Farm) -> None:
        rights = Permission.objects.filter(codename__in=WITH_A_RIGHT.values())
        little_farm.oscar.user_permissions.add(*rights)

    def test_names_the_crons_that_fire_next(self, browse: Browse, little_farm: Farm) -> None:
        autodiscover_modules("crons")  # as a cluster does before it begins
        scheduling.sync_crons()
        for n in range(live_queries.NEXT_FIRINGS + 2):
            every = scheduling.interval(hours=n + 1)
            args = {"kind": "chat", "payload": {"n": n}}
            scheduling.make(f"mine {n}", function=SUBMIT, schedule=every, args=args, policy=Policy())
        scheduling.pause("mine 0")
        page = browse(little_farm.oscar).get("/").content.decode()
        firing = Cron.objects.filter(paused_at__isnull=True, source="person").order_by("next_at", "name")
        expected = list(firing.values_list("name", flat=True)[: live_queries.NEXT_FIRINGS])
        assert re.findall(r'data-key="c([^"]*)"', page) == expected
        assert "expire waiting jobs" not in expected

    def test_shows_limits_that_are_nearly_empty(self, browse: Browse, little_farm: Farm) -> None:
        config = TokenBucket(10, timedelta(days=1))
        ratelimits.limit("plenty", config=config, count=2)
        ratelimits.limit("scarce", key="user:7", config=config, count=9)
        page = browse(little_farm.oscar).get("/").content.decode()
        card = page[page.index('id="limits-nearly-exhausted-title"') :]
        assert ("scarce" in card, "user:7" in card, "plenty" in card) == (True, True, False)

    def test_says_that_no_webhook_is_dead_or_refused(self, browse: Browse, little_farm: Farm) -> None:
        page = browse(little_farm.oscar).get("/").content.decode()
        card = page[page.index('id="webhooks-title"') :]
        assert re.search(r"<dt>Dead</dt>\s*<dd>\s*<span class=\"soft\">none", card)


def test_offers_to_try_the_examples_where_there_are_some(
    little_farm: Farm, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Try it" in browse(little_farm.ada).get("/").content.decode()
    monkeypatch.setattr(examples, "installed", list)
    assert "Try it" not in browse(little_farm.ada).get("/").content.decode()

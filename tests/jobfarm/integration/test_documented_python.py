"""What docs/ prints of Python inside the farm, run as printed: each page's blocks, with the names they presuppose."""

import inspect
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import django
import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory
from django.utils import timezone
from ninja import NinjaAPI

from accounts import operations as accounts
from jobs import operations as jobs
from metering import operations as metering
from metering.operations import meter as metered
from ratelimits import operations as ratelimits
from ratelimits.errors import RateLimited
from scheduling import operations as scheduling
from scheduling.models import Cron, ScheduledFunction
from tests import documented, farm
from tests.jobfarm.integration.forgetting import what_is_declared

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    known = set(sys.modules)
    with what_is_declared():
        yield
    for name in set(sys.modules) - known:
        if name.startswith("documented_"):
            del sys.modules[name]


def module(name: str, *sources: str, **presupposed: Any) -> ModuleType:
    """These blocks as one module, in which the names that they presuppose are known."""
    made = ModuleType(f"documented_{name}")
    sys.modules[made.__name__] = made
    vars(made).update(presupposed)
    for source in sources:
        exec(compile(source, made.__name__, "exec"), vars(made))
    return made


def test_accounts() -> None:
    ada, bob = farm.user("ada"), farm.user("bob")
    request = RequestFactory().get("/")
    request.user = ada
    of_callers, of_groups = documented.blocks("accounts.md", "python")
    page = module("accounts", of_callers, of_groups, request=request, user=ada, ada=ada, bob=bob)
    request.user = AnonymousUser()
    assert page.new_worker(request).status_code == 302
    assert not accounts.is_member(ada, page.group)


class TestRateLimits:
    def test_are_declared_and_asked(self) -> None:
        declaring, asking, *_ = documented.blocks("ratelimits.md", "python")
        page = module("limits", declaring, asking)
        ada, plan = farm.user(), SimpleNamespace(mails=1)
        assert page.search(ada) == "results"
        assert [page.export(ada) for _ in range(5)] == [None] * 5
        page.send_mail("example.org", plan)
        for refused, who in ((page.export, (ada,)), (page.send_mail, ("example.org", plan))):
            with pytest.raises(RateLimited):
                refused(*who)

    def test_are_reserved_and_given_back(self) -> None:
        *_, reserving, _, of_a_kind = documented.blocks("ratelimits.md", "python")
        for name in ("llm", "llm/tokens"):
            ratelimits.declare(name, ratelimits.TokenBucket(2000, timedelta(minutes=1)))
        starts: list[datetime] = []
        before = ratelimits.get_value("llm", key="small").value
        module(
            "reserving", reserving, operations=ratelimits, timedelta=timedelta,
            model="small", tokens=2, now=timezone.now(), start_at=starts.append,
        )  # fmt: skip
        assert len(starts) == 1
        assert ratelimits.get_value("llm", key="small").value == before
        module("of_a_kind", of_a_kind)
        jobs.sync()
        jobs.submit("summary", {})
        assert ratelimits.get_value("llm/tokens").value < 2000 - 1500 + 100

    def test_guard_views_and_routes(self) -> None:
        *_, edges, _ = documented.blocks("ratelimits.md", "python")
        ratelimits.declare("searches", ratelimits.TokenBucket(1, timedelta(hours=1)))
        api = NinjaAPI(urls_namespace="documented")
        page = module("views", edges, api=api, TokenBucket=ratelimits.TokenBucket, timedelta=timedelta)
        assert inspect.iscoroutinefunction(page.sign_up)
        assert "/search" in api.get_openapi_schema(path_prefix="")["paths"]


class TestScheduling:
    def test_runs_functions_after_the_commit(self) -> None:
        of_functions, of_queues, *_ = documented.blocks("scheduling.md", "python")
        plans: dict[str, Any] = {}
        mails: list[Any] = []
        accounts_ = SimpleNamespace(filter=lambda **_: SimpleNamespace(update=plans.update))
        page = module(
            "trials", of_functions, of_queues,
            Account=SimpleNamespace(objects=accounts_), mail=mails.append, note_sent=lambda **ids: ids,
            timedelta=timedelta, datetime=datetime, UTC=UTC,
        )  # fmt: skip
        page.row.refresh_from_db()
        assert page.row.status == "canceled"
        assert set(ScheduledFunction.objects.filter(status="pending").values_list("queue", "priority")) == {
            ("default", 0),
            ("bulk mail", -10),
        }
        scheduling.run_after(0, page.expire_trial, account_id=7)
        scheduling.run_due()
        assert plans == {"plan": "free"}
        scheduling.run_due()
        assert mails == [{"account_id": 7}]

    def test_declares_crons(self, monkeypatch: pytest.MonkeyPatch) -> None:
        [of_crons] = [text for text in documented.blocks("scheduling.md", "python") if "from shop import" in text]
        names = ("close_carts", "send_report", "fetch_rates", "roll_up", "send_invoices", "send_digest")
        mutations = "".join(f"@mutation\ndef {name}(**_): ...\n\n" for name in names)
        tasks = module(
            "tasks", mutations.replace("close_carts(**_)", "close_carts(*, older_than_h)"), mutation=scheduling.mutation
        )
        monkeypatch.setitem(sys.modules, "shop", module("shop", tasks=tasks))
        module("crons", of_crons)
        scheduling.sync_crons()
        assert (
            Cron.objects.filter(name__in=["close carts", "report", "rates", "usage", "invoices", "digest"]).count() == 6
        )

    def test_runs_the_tasks_of_djangos_interface(self) -> None:
        *_, of_tasks = documented.blocks("scheduling.md", "python")
        if django.VERSION < (6,):  # as the block's comment says
            of_tasks = of_tasks.replace("from django.tasks", "from django_tasks")
        page = module("sending", of_tasks)
        row = ScheduledFunction.objects.get()
        assert (row.queue, row.priority) == ("mail", 10)
        scheduling.run_due()
        page.result.refresh()
        assert page.result.is_finished


def test_hooks_of_a_kind() -> None:
    hooks = documented.block("your-own-app.md", "from jobs.operations import Kind, Discard")
    pages: dict[int, dict[str, Any]] = {}

    class Pages:
        """The reader's own table of pages."""

        @staticmethod
        def in_bulk(ids: list[int]) -> dict[int, Any]:
            return {number: SimpleNamespace(text="to be counted") for number in ids if number != 8}

        @staticmethod
        def filter(*, job_id: int) -> Any:
            return SimpleNamespace(update=lambda **new: pages.setdefault(job_id, {}).update(new))

    library = module("library", models=SimpleNamespace(Page=SimpleNamespace(objects=Pages)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "library", library)
        module("hooks", hooks)
    jobs.sync()
    worker = farm.worker("w1", "count-words")
    kept, gone = (jobs.submit("count-words", {"page": number}) for number in (7, 8))
    [claimed] = jobs.claim(worker, limit=2)
    assert claimed.payload == {"text": "to be counted"}
    farm.succeed(worker, claimed, 3)
    assert (pages[kept.pk], farm.status(gone)) == ({"state": "success", "words": 3}, "canceled")


def test_tokens_of_a_kind() -> None:
    [declaring] = documented.blocks("usage.md", "python")
    module("usage", declaring)
    reader = metered.reader_of("caption")
    assert reader is not None
    assert reader.used({"in": 3, "out": 4}) == metering.Tokens(3, 4)

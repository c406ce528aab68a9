"""What stands between a request and its transaction: batches, blocks of tokens, room for bodies."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection, transaction

from core.asgi import ClientGone
from postgres import connections
from tests import farm
from tests.webhooks.inbox.support import new, receive
from webhooks.domain.deliveries import Source
from webhooks.errors import Busy, TooLarge, TooSlow
from webhooks.http import admission
from webhooks.http.admission import Admissions, BatchWriter, Body, Refusals, Room
from webhooks.models import Delivery, Refusal
from webhooks.operations import Kept, Verdict, ingest, keep
from webhooks.operations.ingest import Refused
from webhooks.queries import inbox
from webhooks.queries.inbox import NewDelivery

pytestmark = pytest.mark.usefixtures("transactional_db")


class Supervisor:
    """Keeps what it is given, and how many that were each time."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, deliveries: Sequence[NewDelivery]) -> list[Kept]:
        self.batches.append(len(deliveries))
        return keep(deliveries)


def several(count: int, **options: Any) -> list[NewDelivery]:
    return [new(delivery_id=f"d{number}", **options) for number in range(count)]


async def put(gatherer: BatchWriter, deliveries: Sequence[NewDelivery]) -> list[Any]:
    """Put them all at once; what each came to."""
    return await asyncio.gather(*map(gatherer.put, deliveries), return_exceptions=True)


class TestBatches:
    async def test_take_what_came_while_the_one_before_was_stored(self) -> None:
        supervisor = Supervisor()
        kept = await put(BatchWriter(supervisor), several(200))
        assert {one.verdict for one in kept} == {Verdict.RECEIVED}
        assert len({one.delivery for one in kept}) == 200
        assert (max(supervisor.batches), sum(supervisor.batches), len(supervisor.batches)) == (admission.BATCH, 200, 4)

    async def test_are_bounded_in_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admission, "BATCH_BYTES", 1000)
        supervisor = Supervisor()
        bodies_ = [new(delivery_id=f"d{n}", document={"n": n, "x": "x" * 600}) for n in range(6)]
        await put(BatchWriter(supervisor), bodies_)
        assert supervisor.batches == [2, 2, 2]

    async def test_leave_the_others_unharmed_by_one_that_no_column_takes(self) -> None:
        given = several(5)
        given[2] = new(delivery_id="d2", event_type="x" * 300)
        kept = await put(BatchWriter(keep), given)
        assert isinstance(kept[2], DataError)
        assert [one.verdict for row_pointer, one in enumerate(kept) if row_pointer != 2] == [Verdict.RECEIVED] * 4

    def test_wait_for_no_delivery_that_somebody_processes(self) -> None:
        """Its handler takes long, and its sender sends it again: the deliveries of all others would wait for that."""
        known = receive(delivery_id="known")

        def again() -> list[Kept]:
            return keep([new(delivery_id="known"), new(delivery_id="fresh")])

        with transaction.atomic():
            inbox.take(known.pk, row_pointer="(0,0)")
            [kept] = farm.at_once(again)
        assert kept[0] == Kept(verdict=Verdict.DUPLICATE, delivery=known.pk)
        assert kept[1].verdict is Verdict.RECEIVED

    async def test_go_on_when_somebody_does_not_wait_for_the_answer(self) -> None:
        gatherer = BatchWriter(keep)
        gone = asyncio.create_task(gatherer.put(new(delivery_id="gone")))
        await asyncio.sleep(0)  # until it has been put
        gone.cancel()
        [kept] = await put(gatherer, [new(delivery_id="stays")])
        assert kept.verdict is Verdict.RECEIVED
        assert await connections.run(Delivery.objects.count) == 2

    async def test_that_cannot_be_stored_tell_everybody_and_the_next_one_can(self) -> None:
        troubles = [RuntimeError("the database is away")]

        def keep_later(deliveries: Sequence[NewDelivery]) -> list[Kept]:
            if troubles:
                raise troubles.pop()
            return keep(deliveries)

        gatherer = BatchWriter(keep_later)
        assert [str(one) for one in await put(gatherer, several(3))] == ["the database is away"] * 3
        [kept] = await put(gatherer, several(1))
        assert kept.verdict is Verdict.RECEIVED

    @pytest.mark.parametrize(("name", "most"), [("MOST_WAITING", 3), ("MOST_WAITING_BYTES", 20)])
    async def test_that_wait_are_bounded(self, monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
        monkeypatch.setattr(admission, name, most)
        kept = await put(BatchWriter(keep), several(5))  # of twelve bytes each
        busy = [one for one in kept if isinstance(one, Busy)]
        assert 0 < len(busy) < 5
        assert await connections.run(Delivery.objects.count) == 5 - len(busy)


class Limit:
    """A limit of so many tokens, and what it was asked for."""

    def __init__(self, tokens: int) -> None:
        self.left = tokens
        self.counts: list[int] = []

    def __call__(self, source: str, address: str, wanted: int) -> tuple[int, timedelta]:
        del source, address
        self.counts.append(wanted)
        count = wanted if wanted <= self.left else min(1, self.left)
        self.left -= count
        return count, timedelta(seconds=0 if count else 7)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """As `time.monotonic`."""
        return self.now


class TestBlocksOfTokens:
    async def test_grow_while_an_address_is_busy(self) -> None:
        limit = Limit(1000)
        admissions = Admissions(limit)
        answers = await asyncio.gather(*(admissions.admit(Source.GITHUB, "a") for _ in range(200)))
        assert answers == [None] * 200
        assert limit.counts == [1, 2, 4, 8, 16, 32, 64, 64, 64]

    async def test_never_let_more_through_than_were_given(self) -> None:
        limit = Limit(10)
        both = [Admissions(limit), Admissions(limit)]  # of two processes
        answers = [await both[turn % 2].admit(Source.GITHUB, "a") for turn in range(30)]
        assert answers.count(None) == 10
        assert limit.left == 0
        assert all(timedelta(seconds=6) < wait <= timedelta(seconds=7) for wait in answers if wait)

    async def test_are_not_asked_for_again_right_after_a_denial(self) -> None:
        limit = Limit(0)
        admissions = Admissions(limit)
        for _ in range(20):
            assert await admissions.admit(Source.GITHUB, "a") is not None
        assert limit.counts == [1]

    async def test_that_were_not_spent_in_time_are_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock()
        monkeypatch.setattr(admission, "time", clock)
        limit = Limit(100)
        admissions = Admissions(limit)
        for _ in range(2):
            await admissions.admit(Source.GITHUB, "a")
        clock.now += admission.KEPT_S
        await admissions.admit(Source.GITHUB, "a")
        assert limit.counts == [1, 2, 1]

    async def test_are_asked_for_again_a_moment_after_a_denial(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock()
        monkeypatch.setattr(admission, "time", clock)
        limit = Limit(0)
        admissions = Admissions(limit)
        assert await admissions.admit(Source.GITHUB, "a") == timedelta(seconds=7)
        clock.now += admission.LONGEST_DENIAL_S
        limit.left = 1
        assert await admissions.admit(Source.GITHUB, "a") is None

    async def test_are_of_one_source_and_address(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admission, "MOST_ADDRESSES", 2)
        limit = Limit(100)
        admissions = Admissions(limit)
        for source, address in [(Source.GITHUB, "a"), (Source.JIRA, "a"), (Source.GITHUB, "b")]:
            await admissions.admit(source, address)
        assert limit.counts == [1, 1, 1]
        await admissions.admit(Source.GITHUB, "a")  # the oldest was forgotten, and begins with one again
        assert limit.counts == [1, 1, 1, 1]


class TestBodies:
    async def test_are_read_piece_by_piece_to_the_limit(self) -> None:
        pieces = [b"12345", b"67890"]
        with held() as one:
            assert await Body(sent(*pieces), limit=10).read(one) == b"1234567890"
        with held() as one, pytest.raises(TooLarge):
            await Body(sent(*pieces), limit=9).read(one)

    async def test_that_come_too_slowly_are_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admission, "READ_WITHIN_S", 0.01)

        async def never() -> Any:
            await asyncio.Event().wait()

        with held() as one, pytest.raises(TooSlow):
            await Body(never, limit=10).read(one)

    async def test_that_come_drop_by_drop_are_given_up_long_before_the_longest_time(self) -> None:
        """What came says how long the sender may take: ten bytes at a thousand a second are worth a hundredth."""
        first = iter([b"0123456789"])

        async def drops() -> dict[str, Any]:
            piece = next(first, None)
            if piece is None:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": piece, "more_body": True}

        with held() as one, pytest.raises(TooSlow, match="only 10 bytes"):
            await Body(drops, limit=100, grace_s=0.05, least_rate=1000).read(one)

    async def test_of_a_sender_that_hangs_up_are_none(self) -> None:
        async def gone() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        with held() as one, pytest.raises(ClientGone):
            await Body(gone, limit=10).read(one)

    async def test_take_room_as_they_come(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admission, "MOST_BYTES", 8)
        with held() as one, pytest.raises(Busy):
            await Body(sent(b"12345", b"6789"), limit=100).read(one)


class TestRoom:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admission, "MOST_BYTES", 10)
        monkeypatch.setattr(admission, "MOST_OF_SOURCE", 6)
        monkeypatch.setattr(admission, "MOST_OF_ADDRESS", 4)

    def test_is_bounded_for_an_address_a_source_and_all_together(self) -> None:
        room = Room()
        with ExitStack() as stack:
            one, two, three, four = (
                stack.enter_context(room.of(source, address))
                for source, address in [
                    (Source.GITHUB, "a"), (Source.GITHUB, "b"), (Source.JIRA, "c"), (Source.STRIPE, "d"),
                ]
            )  # fmt: skip
            one(4)
            with pytest.raises(Busy):
                one(1)  # of its address
            two(2)
            with pytest.raises(Busy):
                two(1)  # of its source, which another address has filled
            three(4)
            with pytest.raises(Busy):
                four(1)  # of all

    def test_is_given_back_whole_also_after_a_refusal(self) -> None:
        room = Room()
        for _ in range(3):
            with room.of(Source.GITHUB, "a") as one:
                one(3)
                with pytest.raises(Busy):
                    one(2)
        assert not room._taken


class TestRefusals:
    async def test_that_came_while_the_database_was_away_are_counted_with_the_next(self) -> None:
        """A refused request may come again or not: its count is in no other place."""
        ends = [True]

        def count(refusals: Sequence[Refused]) -> None:
            if ends:
                ends.pop()
                connection.cursor().execute("SELECT pg_terminate_backend(pg_backend_pid())")
            ingest.count_refusals(refusals)

        refusals = Refusals(count)
        one = Refused(source=Source.JIRA, reason="too_old", address=None, size=1, header_names=[])
        with pytest.raises(OperationalError):
            await refusals.count(one)
        await refusals.count(one)
        assert await connections.run(lambda: Refusal.objects.get().count) == 2


def held() -> AbstractContextManager[admission.Grow]:
    """Room for one body of somebody."""
    return Room().of(Source.GITHUB, "somebody")


def sent(*pieces: bytes) -> Any:
    """An ASGI `receive` of a request whose body comes in these pieces."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = False
    left = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(left)

    return receive

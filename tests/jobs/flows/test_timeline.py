"""When the steps of a flow waited, ran and were suspended."""

import pytest
from django.test import Client

from jobs import operations
from jobs.domain import timelines
from jobs.domain.flow_graph import FOLDED_FROM, Place, graph
from jobs.domain.timelines import Piece, pieces
from jobs.live_queries.lists import flow
from jobs.queries import flows, pages
from tests import farm
from tests.jobs.flows.test_signals import suspend


def place(number: int, *after: int, status: str = "success", claimed_s: float | None = None,
          ended_s: float | None = None, depth: int = 0) -> Place:  # fmt: skip
    return Place(
        id=number, name=f"n{number}", kind="work", status=status, depth=depth, after=after, created_s=0,
        claimed_s=claimed_s, ended_s=ended_s,
    )  # fmt: skip


def of(one: Place, *others: Place, attempts: tuple[Piece, ...] = ()) -> list[Piece]:
    return [*pieces(one, {each.id: each.ended_s for each in others}, attempts)]


class TestOfOneStep:
    def test_waits_from_the_end_of_the_last_that_it_comes_after(self) -> None:
        befores = place(1, claimed_s=1, ended_s=4), place(2, claimed_s=1, ended_s=7)
        last = place(3, 1, 2, claimed_s=9, ended_s=12)
        assert of(last, *befores) == [(7, 9, "pending"), (9, 12, "success")]

    def test_has_nothing_while_it_comes_after_one_that_has_not_ended(self) -> None:
        assert of(place(2, 1, status="pending"), place(1, status="in_progress", claimed_s=1)) == []

    def test_waits_since_it_was_let_go(self) -> None:
        assert of(place(2, 1, status="pending"), place(1, claimed_s=1, ended_s=4)) == [(4, None, "pending")]

    def test_was_suspended_until_it_was_taken_again(self) -> None:
        """What it waited for, its child, ended after its own first claim."""
        parent, attempts = place(1, 2, claimed_s=8, ended_s=9), (Piece(2, 3, "suspended"),)
        child = place(2, claimed_s=4, ended_s=6)
        assert of(parent, child, attempts=attempts) == [
            (0, 2, "pending"), (2, 3, "ran"), (3, 8, "suspended"), (8, 9, "success"),
        ]  # fmt: skip

    def test_is_suspended_still(self) -> None:
        attempts = (Piece(2, 3, "suspended"),)
        assert of(place(1, status="pending", claimed_s=2), attempts=attempts)[-1] == (3, None, "suspended")

    def test_was_canceled_after_an_attempt_that_failed(self) -> None:
        one = place(1, status="canceled", claimed_s=2, ended_s=9)
        assert of(one, attempts=(Piece(2, 3, "failed"),)) == [(0, 2, "pending"), (2, 3, "failed"), (3, 9, "canceled")]

    def test_failed_twice_and_runs(self) -> None:
        one = place(1, status="in_progress", claimed_s=8)
        attempts = (Piece(1, 2, "failed"), Piece(4, 5, "lost"))
        assert [piece.outcome for piece in of(one, attempts=attempts)] == [
            "pending", "failed", "pending", "lost", "pending", "in_progress",
        ]  # fmt: skip

    def test_was_canceled_for_the_sake_of_another_before_it_could_wait(self) -> None:
        one = place(3, 1, 2, status="canceled", ended_s=5)
        assert of(one, place(1, status="failed", ended_s=5), place(2, status="in_progress")) == [(5, 5, "canceled")]


def test_those_that_are_alike_are_one_lane_with_few_bars() -> None:
    many = FOLDED_FROM + 60
    places = [place(n, claimed_s=n * 0.1, ended_s=n * 0.1 + 1) for n in range(1, many + 1)]
    lanes, left_out = timelines.lanes(graph(places).nodes, places, {}, begin_s=0, end_s=20)
    [lane] = lanes
    assert (lane.number, left_out) == (many, 0)
    assert [(bar.run.outcome, bar.run.number) for bar in lane.bars] == [("pending", many), ("success", many)]
    assert lane.bars[0].run.title == f"work × {many}"


def test_bars_are_bounded_and_steps_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MOST_BARS", 5)
    places = [place(n, claimed_s=1, ended_s=2) for n in range(1, 5)]
    lanes, left_out = timelines.lanes(graph(places).nodes, places, {}, begin_s=0, end_s=20)
    assert (len(lanes), left_out) == (2, 2)


@pytest.mark.django_db
class TestOfAFlow:
    def test_shows_attempts_and_waits_of_each_step_to_who_may_see_it(self, client: Client) -> None:
        operations.sync()
        ada = farm.user("ada")
        worker = farm.worker("w", "chat")
        first, _ = farm.stored_jobs(
            operations.submit_many(
                [
                    farm.new_job("chat", {"prompt": "a"}, name="split", owner=ada),
                    farm.new_job("chat", {"prompt": "b"}, name="join", after=["split"], owner=ada),
                ]
            )
        )
        suspend(worker, farm.claim_one(worker), signal="go")
        operations.signal(first.pk, "go", by=None)
        farm.succeed(worker, farm.claim_one(worker))
        client.force_login(ada)
        page = client.get(f"/flows/{first.flow_id}/").content.decode()
        for words in ("pending", "ran", "suspended", "success"):
            assert f'aria-label="#{first.pk} chat, {words}, ' in page
        assert 'aria-label="join: 1 bar"' in page

    def test_attempts_are_bounded_and_the_page_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        operations.sync()
        worker = farm.worker("w", "chat")
        first = operations.submit("chat", {"prompt": "a"})
        operations.submit("chat", {"prompt": "b"}, after=[first.pk])
        flow_id = farm.stored(first).flow_id
        suspend(worker, farm.claim_one(worker), signal="go")
        before = flow.read(whose=pages.EVERYBODY, flow_id=flow_id)
        monkeypatch.setattr(flows, "MOST_ATTEMPTS", 1)
        after = flow.read(whose=pages.EVERYBODY, flow_id=flow_id)
        assert before is not None
        assert after is not None
        assert (before["is_all"], after["is_all"]) == (True, False)

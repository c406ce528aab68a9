"""Pieces of output of several jobs, stored by one statement."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import operations
from jobs.domain.outputs import Piece
from jobs.errors import InvalidValue, LeaseLost, OutputGap, QuotaReached
from jobs.models import OutputChunk, Worker
from tests import farm

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("work_kind")]


@pytest.fixture
def me() -> Worker:
    return farm.worker()


@pytest.fixture
def held(me: Worker) -> list[operations.ClaimedJob]:
    """Four jobs that one worker holds, the newest first: not in the order in which they are locked."""
    farm.submit(4)
    return sorted(operations.claim(me, limit=4), key=lambda claimed: -claimed.id)


@pytest.fixture
def quota(settings: Settings) -> Callable[..., None]:
    """Sets quotas, by the names of their settings."""

    def change(**quotas: int) -> None:
        settings.JOBFARM = {**settings.JOBFARM, **quotas}

    return change


def _piece(claimed: operations.ClaimedJob, seq: int = 0, text: str = "a") -> Piece:
    return Piece(job_id=claimed.id, lease=claimed.lease, seq=seq, text=text)


def _stored() -> list[tuple[int, int, str]]:
    return list(OutputChunk.objects.order_by("job", "seq").values_list("job", "seq", "text"))


def test_are_stored_in_one_statement(me: Worker, held: list[operations.ClaimedJob]) -> None:
    operations.write_outputs(me, [_piece(held[0])])  # what the farm has is read once in 5 s
    with CaptureQueriesContext(connection) as queries:
        answers = operations.write_outputs(me, [_piece(claimed, int(n == 0)) for n, claimed in enumerate(held)])
    assert answers == [2, 1, 1, 1]
    assert len([query for query in queries if "jobs_" in query["sql"]]) == 1
    assert len(_stored()) == 5


def test_are_answered_each_for_itself(me: Worker, held: list[operations.ClaimedJob]) -> None:
    good, gap, lost, bad = held
    operations.release(me, lost.id, lost.lease)
    before = [farm.everything(claimed) for claimed in (gap, lost, bad)]
    pieces = [_piece(bad, text="\x00"), _piece(lost), _piece(gap, 7), _piece(good, text="kept")]
    answers = operations.write_outputs(me, pieces)
    assert [answer if isinstance(answer, int) else type(answer) for answer in answers] == [
        InvalidValue, LeaseLost, OutputGap, 1,
    ]  # fmt: skip
    assert isinstance(answers[1], LeaseLost)
    assert answers[1].reason == "taken_back"
    assert _stored() == [(good.id, 0, "kept")]
    assert [farm.everything(claimed) for claimed in (gap, lost, bad)] == before


def test_that_came_before_are_answered_as_then(me: Worker, held: list[operations.ClaimedJob]) -> None:
    pieces = [_piece(claimed) for claimed in held]
    assert operations.write_outputs(me, pieces) == operations.write_outputs(me, pieces) == [1, 1, 1, 1]
    assert len(_stored()) == 4


def test_none_are_no_statement(me: Worker) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert operations.write_outputs(me, []) == []
    assert not queries


@pytest.mark.parametrize("of", ["farm", "owner"])
def test_share_what_room_there_is(ada: User, me: Worker, quota: Callable[..., None], of: str) -> None:
    quota(**{"OUTPUT_BYTES_IN_ALL" if of == "farm" else "OUTPUT_BYTES_PER_OWNER": 10})
    farm.submit(3, owner=ada)
    held = operations.claim(me, limit=3)
    operations.write_outputs(me, [_piece(held[0])])  # so that this process knows that ada is near her quota
    pieces = [_piece(held[0], 1, "1234"), _piece(held[1], 0, "1234"), _piece(held[2], 0, "1234")]
    first, second, third = operations.write_outputs(me, pieces)
    assert (first, second) == (2, 1)
    assert isinstance(third, QuotaReached)
    assert (third.of, third.used, third.more) == (of, 9, 4)
    assert operations.write_outputs(me, [_piece(held[2], 0, "1")]) == [1]


def test_of_another_owner_have_room_where_one_has_none(
    ada: User, bob: User, me: Worker, quota: Callable[..., None]
) -> None:
    quota(OUTPUT_BYTES_PER_OWNER=5)
    farm.submit(2, owner=ada)
    farm.submit(1, owner=bob)
    first, second, bobs = operations.claim(me, limit=3)
    operations.write_outputs(me, [_piece(first, 0, "1")])
    pieces = [_piece(first, 1, "1234"), _piece(second, 0, "1"), _piece(bobs, 0, "12345")]
    answers = operations.write_outputs(me, pieces)
    assert (answers[0], type(answers[1]), answers[2]) == (2, QuotaReached, 1)

"""In a call about many, one that cannot be stored is named, and is no other's fault."""

from typing import Any

import pytest

from jobs import operations
from jobs.errors import InvalidJson, InvalidValue, JobsError, PayloadTooLarge, UnknownKind
from jobs.models import Job
from jobs.protocol import answers, verbs
from tests import farm

pytestmark = pytest.mark.django_db


class TestFinishMany:
    @pytest.mark.parametrize(
        ("result", "error"), [("a\x00b", "invalid_json"), ("x" * 1_000_001, "too_large"), ("\ud800", "invalid_json")]
    )
    def test_takes_the_others_and_says_why_not_the_one(self, result: str, error: str) -> None:
        farm.kind()
        farm.submit(4)
        me = farm.worker()
        held = operations.claim(me, limit=3)
        entries: list[Any] = [
            {"id": one.id, "lease": str(one.lease), "outcome": "success", "result": n} for n, one in enumerate(held)
        ]
        entries[1]["result"] = result
        body = verbs.FinishMany(finished=entries, claim_next=1, request_id=None)
        answer = verbs.finish_many(me, body)
        first, refused, last = answer.finished
        assert isinstance(first, answers.EndedOne)
        assert isinstance(last, answers.EndedOne)
        assert isinstance(refused, answers.LostOne)
        assert (refused.id, refused.error, refused.reason) == (held[1].id, error, None)
        assert [farm.status(one) for one in held] == ["success", "in_progress", "success"]
        assert len(answer.jobs) == 1
        assert verbs.finish_many(me, body).model_dump()["finished"] == answer.model_dump()["finished"]
        assert farm.fail(me, held[1], retryable=False) == "failed"  # its lease held on

    def test_of_which_none_can_be_stored_claims_what_no_such_call_before_it_did(self) -> None:
        """None of them was handed in, so there is nothing by which two such calls were the same."""
        farm.kind()
        farm.submit(4)
        me = farm.worker()
        taken = []
        for one in operations.claim(me, limit=2):
            entry: Any = {"id": one.id, "lease": str(one.lease), "outcome": "success", "result": "\ud800"}
            taken += verbs.finish_many(me, verbs.FinishMany(finished=[entry], claim_next=1, request_id=None)).jobs
        assert len({job.id for job in taken}) == 2


class TestABulk:
    @pytest.mark.parametrize(
        ("wrong", "refusal"),
        [
            ({"payload": "a\x00b"}, InvalidJson),
            ({"payload": "x" * 1_000_001}, PayloadTooLarge),
            ({"kind": "unheard-of"}, UnknownKind),
            ({"priority": 101}, InvalidValue),
            ({"requires": {"vram": ">=much"}}, InvalidValue),
            ({"limit_count": 3.0}, InvalidValue),
        ],
        ids=str,
    )
    def test_is_refused_with_the_place_of_the_one(self, wrong: dict[str, Any], refusal: type[JobsError]) -> None:
        farm.kind()
        new = [farm.new_job(**{"payload": 1, **(wrong if place == 2 else {})}) for place in range(4)]
        with pytest.raises(refusal) as refused:
            operations.submit_many(new)
        assert refused.value.body["index"] == 2
        assert refused.value.body["message"].startswith("jobs[2]: ")
        assert Job.objects.count() == 0
        with pytest.raises(refusal) as refused:
            operations.submit_many(new[2:3])
        assert "index" not in refused.value.body

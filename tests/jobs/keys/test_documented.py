"""The blocks of docs/tenants.md, as they are printed."""

import pytest

from jobs import kinds, operations
from jobs.models import Queue
from tests import documented, farm

pytestmark = pytest.mark.django_db


def test_a_queue_is_shared_out_as_the_page_says() -> None:
    farm.kind("images")
    exec(documented.block("tenants.md", "jobs.set_fair"), {"jobs": operations})
    assert Queue.objects.get(pk="images").fair == "owner"


def test_a_kind_is_bounded_as_the_page_says() -> None:
    try:
        exec(documented.block("tenants.md", "from jobs.operations import Kind, declare"), {})
        operations.sync()
        worker = farm.worker("w1", "transcribe")
        for account in ("a", "a", "a", "b"):
            operations.submit("transcribe", {"account": account})
        assert len(operations.claim(worker, limit=9)) == 3
    finally:
        kinds.DECLARED.pop("transcribe", None)


def test_a_queue_ages_and_a_person_is_paused_as_the_page_says() -> None:
    farm.kind("images")
    ada = farm.user("ada")
    exec(documented.block("tenants.md", "jobs.set_ages_after"), {"jobs": operations})
    assert Queue.objects.get(pk="images").ages_after == 600
    farm.submit(1, "images", owner=ada)
    exec(documented.block("tenants.md", "from django.contrib.auth.models import User"), {"jobs": operations})
    assert farm.claim_one(farm.worker("w1", "images")).kind == "images"

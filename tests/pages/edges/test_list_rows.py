"""What a row of a list says of its job."""

from typing import Any

import pytest

from jobs import operations
from jobs.models import Job
from jobs.queries import lists
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in work\nMemoryError: CUDA out of memory\n\n'


@pytest.mark.parametrize(
    ("payload", "about"),
    [
        ({"seed": 7, "prompt": "a barn at night"}, "a barn at night"),
        ({"url": "https://example.org/talk.mp3", "language": "de"}, "https://example.org/talk.mp3"),
        ({"prompt": "", "title": "Minutes of May"}, "Minutes of May"),
        ({"below": 9}, '{"below": 9}'),
        (["a", "b"], '["a", "b"]'),
        ({}, None),
        ({"prompt": "short", "audio": "".join(map(str, range(9999)))}, "short"),
        ({"audio": "".join(map(str, range(9999)))}, None),  # read for each row, it would cost more than it says
    ],
)
def test_what_it_is_about_is_in_the_payload(little_farm: Farm, payload: Any, about: str | None) -> None:
    job = operations.submit("chat", payload, owner=little_farm.ada)
    row: Any = lists.dressed(Job.objects.filter(pk=job.pk)).get()
    assert row.excerpt == about


def test_one_that_failed_says_how_in_its_last_line(little_farm: Farm, browse: Browse) -> None:
    worker = farm.worker("w", "chat")
    operations.submit("chat", {"prompt": "x"}, owner=little_farm.ada, max_attempts=1)
    job = operations.submit("chat", {"prompt": "y"}, owner=little_farm.ada, max_attempts=1)
    farm.fail(worker, farm.claim_one(worker), error="ValueError: of the older one")
    farm.fail(worker, farm.claim_one(worker), error=TRACEBACK)
    page = browse(little_farm.ada).get("/jobs/?status=failed").content.decode()
    assert page.count("MemoryError: CUDA out of memory") == 1
    assert "Traceback" not in page
    assert operations.submit("chat", {"prompt": "z"}, owner=little_farm.ada).pk > job.pk
    waiting = browse(little_farm.ada).get("/jobs/?status=pending").content.decode()
    assert "MemoryError" not in waiting


def test_a_filter_that_nothing_matches_can_be_cleared(little_farm: Farm, browse: Browse) -> None:
    page = browse(little_farm.ada).get("/jobs/?text=nowhere-to-be-seen").content.decode()
    assert "No job matches" in page
    assert '<a class="button primary" href="/jobs/">Clear the filter</a>' in page

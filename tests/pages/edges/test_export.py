"""Lists of jobs as files."""

import csv
import io
import json

import pytest

from jobs import operations
from jobs.views import lists
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


def test_a_table_has_what_the_list_shows(little_farm: Farm, browse: Browse) -> None:
    worker = farm.worker("gpu", "image")
    operations.submit("image", {"prompt": 'a "barn", at night\nin May'}, owner=little_farm.ada, max_attempts=1)
    farm.fail(worker, farm.claim_one(worker), error="Traceback\nMemoryError: too big")
    answer = browse(little_farm.ada).get("/jobs/export.csv?kind=image")
    assert answer["Content-Disposition"] == 'attachment; filename="jobs.csv"'
    [row] = csv.DictReader(io.StringIO(answer.content.decode(), newline=""))
    assert tuple(row)[:4] == ("Job", "Kind", "Queue", "Status")
    assert tuple(row)[-4:] == ("Submitted", "Not before", "Claimed", "Ended")
    assert (row["Status"], row["Owner"], row["Worker"]) == ("failed", "ada", "gpu")
    assert row["About"] == 'a "barn", at night\nin May'
    assert row["Error"] == "Traceback\nMemoryError: too big"
    assert row["Ended"].endswith("+00:00")
    assert row["Group"] == ""


def test_an_error_of_which_the_end_is_kept_begins_with_a_whole_line(little_farm: Farm, browse: Browse) -> None:
    operations.submit("image", {}, owner=little_farm.ada, max_attempts=1)
    lines = [f"line {n} of the traceback" for n in range(100, 200)]
    worker = farm.worker("gpu", "image")
    farm.fail(worker, farm.claim_one(worker), error="\n".join(lines))
    [line] = browse(little_farm.ada).get("/jobs/export.jsonl?kind=image").content.decode().splitlines()
    kept = json.loads(line)["error"].split("\n")
    assert kept == lines[-len(kept) :]


def test_jobs_of_a_flow_say_so_and_one_that_comes_after_others_has_no_moment(little_farm: Farm, browse: Browse) -> None:
    first = operations.submit("image", {}, owner=little_farm.ada, name="first")
    then = operations.submit("image", {}, owner=little_farm.ada, after=[first.pk])
    answer = browse(little_farm.ada).get(f"/jobs/export.csv?flow={then.flow_id}").content.decode()
    rows = [(row["Job"], row["Flow"], row["Not before"] == "") for row in csv.DictReader(io.StringIO(answer))]
    assert rows == [(f"{then.pk}", f"{then.flow_id}", True), (f"{first.pk}", f"{then.flow_id}", False)]


def test_no_cell_is_a_formula(little_farm: Farm, browse: Browse) -> None:
    operations.submit("chat", {"prompt": '=HYPERLINK("https://evil.example")'}, owner=little_farm.eve)
    answer = browse(little_farm.eve).get("/jobs/export.csv").content.decode()
    [row] = csv.DictReader(io.StringIO(answer))
    assert row["About"] == '\'=HYPERLINK("https://evil.example")'
    [line] = browse(little_farm.eve).get("/jobs/export.jsonl").content.decode().splitlines()
    assert json.loads(line)["about"] == '=HYPERLINK("https://evil.example")'


def test_nobody_gets_what_they_may_not_see(little_farm: Farm, browse: Browse) -> None:
    assert browse(little_farm.eve).get("/jobs/export.jsonl").content == b""
    [seen] = browse(little_farm.bob).get("/jobs/export.jsonl").content.decode().splitlines()
    assert json.loads(seen)["id"] == little_farm.job.pk


def test_a_long_one_names_the_next_file(little_farm: Farm, browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "MOST_EXPORTED", 4)
    monkeypatch.setattr(lists, "AT_A_TIME", 2)
    jobs = [little_farm.job, *farm.submit(6, "chat", owner=little_farm.ada)]
    first = browse(little_farm.ada).get("/jobs/export.jsonl?kind=chat")
    ids = [json.loads(line)["id"] for line in first.content.decode().splitlines()]
    address = f"/jobs/export.jsonl?kind=chat&before={ids[-1]}"
    assert first["Link"] == f'<{address}>; rel="next"'
    second = browse(little_farm.ada).get(address)
    assert "Link" not in second
    ids += [json.loads(line)["id"] for line in second.content.decode().splitlines()]
    assert ids == [job.pk for job in reversed(jobs)]


def test_a_filter_that_makes_no_sense_is_refused(little_farm: Farm, browse: Browse) -> None:
    answer = browse(little_farm.ada).get("/jobs/export.csv?since=yesterday")
    assert answer.status_code == 422
    assert "Enter a date and a time" in answer.content.decode()


def test_the_page_leads_to_both(little_farm: Farm, browse: Browse) -> None:
    page = browse(little_farm.ada).get("/jobs/?kind=chat&before=99").content.decode()
    assert 'href="/jobs/export.csv?kind=chat"' in page
    assert 'href="/jobs/export.jsonl?kind=chat"' in page

"""Input files on pages: sent with the form, shown on the job's page, kept by an edited copy; whose they are."""

import html
import json
import re
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from pytest_django import Settings

from core.large_json import Cutting, cut
from jobs import operations
from jobs.models import Input, Job, Upload
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db
SCRIPT = b"<script>alert(1)</script>"
GIVEN = {"audio": "sound.ogg", "photo": "Photo.PNG", "note": "note.txt", "page": "page.html", "drawing": "drawing.svg"}


def upload(owner: User, name: str = "sound.ogg", content: bytes = SCRIPT) -> Upload:
    return operations.upload(name, ContentFile(content, name=name), owner=owner)


@pytest.fixture
def job(little_farm: Farm) -> Job:
    """A job of Ada's, shared with her group, that was given one file of each sort."""
    files = {name: upload(little_farm.ada, filename).pk for name, filename in GIVEN.items()}
    group = little_farm.ada.groups.get()
    return operations.submit("chat", {"prompt": "?"}, owner=little_farm.ada, group=group, files=files)


def body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


class TestAJobsPage:
    def test_shows_what_it_was_given_as_it_shows_results(self, little_farm: Farm, browse: Browse, job: Job) -> None:
        page = browse(little_farm.ada).get(f"/jobs/{job.pk}/").content.decode()
        assert re.search(r'<h2 id="input-title">Input</h2>', page)
        assert re.search(r'<img\s+src="inputs/photo\?v=[0-9a-f]{16}"', page)
        assert re.search(r'<audio class="preview"[^>]*src="inputs/audio"', page)
        assert 'data-preview="inputs/note"' in page
        assert '<a href="inputs/page" download>page</a>' in page
        assert '<a href="inputs/drawing" download>drawing</a>' in page
        assert "page.html" in page

    def test_without_any_says_nothing_of_them(self, little_farm: Farm, browse: Browse) -> None:
        assert "input-title" not in browse(little_farm.ada).get(f"/jobs/{little_farm.job.pk}/").content.decode()

    def test_names_those_that_were_deleted(self, little_farm: Farm, browse: Browse, job: Job) -> None:
        operations.cancel(job.pk, by=little_farm.ada)
        operations.delete_upload(Input.objects.get(name="audio").upload_id, by=little_farm.ada)
        page = browse(little_farm.ada).get(f"/jobs/{job.pk}/").content.decode()
        assert "Deleted since: audio." in page
        assert 'href="inputs/audio"' not in page

    def test_prints_calls_that_give_the_same_files(self, little_farm: Farm, browse: Browse, job: Job) -> None:
        page = html.unescape(browse(little_farm.ada).get(f"/jobs/{job.pk}/").content.decode())
        assert f'"audio": "{Input.objects.get(name="audio").upload_id}"' in page


class TestAFile:
    def test_is_for_who_may_see_its_job(self, little_farm: Farm, browse: Browse, job: Job) -> None:
        address = f"/jobs/{job.pk}/inputs/audio"
        people = (little_farm.ada, little_farm.bob, little_farm.eve, little_farm.oscar, None)
        answers = [browse(who).get(address) for who in people]
        assert [answer.status_code for answer in answers] == [200, 200, 404, 200, 302]
        assert [body(answer) == SCRIPT for answer in answers] == [True, True, False, True, False]

    @pytest.mark.parametrize(("name", "kind"), [
        ("audio", "audio/ogg"), ("photo", "image/png"), ("note", "text/plain; charset=utf-8"),
        ("page", "application/octet-stream"), ("drawing", "application/octet-stream"),
    ])  # fmt: skip
    def test_never_runs_here(self, little_farm: Farm, browse: Browse, job: Job, name: str, kind: str) -> None:
        token = operations.share(job.pk, by=little_farm.ada).token
        manner = "attachment" if kind == "application/octet-stream" else "inline"
        for path in (f"/jobs/{job.pk}", f"/api/v1/jobs/{job.pk}", f"/jobs/shared/{token}"):
            answer = browse(little_farm.ada).get(f"{path}/inputs/{name}")
            assert answer.headers["Content-Type"] == kind, path
            assert answer.headers["Content-Disposition"] == f'{manner}; filename="{GIVEN[name]}"'
            assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert body(answer) == SCRIPT

    @pytest.mark.parametrize("name", ["video", "..%2F..%2Fsettings.py", "%2e%2e", "a%00b", "audio/"])
    def test_of_another_name_is_not_there(self, little_farm: Farm, browse: Browse, job: Job, name: str) -> None:
        assert browse(little_farm.ada).get(f"/jobs/{job.pk}/inputs/{name}").status_code == 404

    def test_is_seen_by_a_share_link_until_it_is_withdrawn(self, little_farm: Farm, browse: Browse, job: Job) -> None:
        token = operations.share(job.pk, by=little_farm.ada).token
        page = browse(None).get(f"/jobs/shared/{token}/").content.decode()
        assert 'data-preview="inputs/note"' in page
        assert body(browse(None).get(f"/jobs/shared/{token}/inputs/note")) == SCRIPT
        assert browse(None).get(f"/jobs/shared/{token[:-1]}/inputs/note").status_code == 404
        operations.unshare(job.pk, by=little_farm.ada)
        assert browse(None).get(f"/jobs/shared/{token}/inputs/note").status_code == 404


def send(browse: Browse, who: User, address: str = "/jobs/new/?kind=other", **form: Any) -> Any:
    return browse(who).post(address, {"kind_name": "chat", "payload_text": "{}", **form})


def file(name: str, content: bytes = b"bytes") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


class TestTheForm:
    def test_sends_files_that_have_the_names_that_were_given(self, little_farm: Farm, browse: Browse) -> None:
        files = [file("My sound (1).ogg", b"one"), file("b.png", b"two")]
        answer = send(browse, little_farm.ada, uploads=files, names="audio, picture")
        assert answer.status_code == 302, answer.content.decode()
        job = Job.objects.latest("pk")
        assert answer.headers["Location"] == f"/jobs/{job.pk}/"
        given = {use.name: (use.filename, use.size, use.upload.owner) for use in job.input_files.all()}
        assert given == {"audio": ("My-sound-1.ogg", 3, little_farm.ada), "picture": ("b.png", 3, little_farm.ada)}

    def test_names_files_as_they_are_called(self, little_farm: Farm, browse: Browse) -> None:
        send(browse, little_farm.ada, uploads=[file("../../etc/My file.txt"), file("empty.bin", b"")])
        assert set(Input.objects.values_list("name", flat=True)) == {"My-file.txt", "empty.bin"}

    def test_without_files_is_as_before(self, little_farm: Farm, browse: Browse) -> None:
        assert send(browse, little_farm.ada).status_code == 302
        assert not Upload.objects.exists()

    @pytest.mark.parametrize(
        ("form", "sentence"),
        [
            ({"names": "one two"}, "One name for each file"),
            ({"names": "../x y"}, "cannot name a file"),
            ({"names": "same same"}, "Two files have the same name"),
            ({"payload_text": "{"}, "not JSON"),
            ({"unique_key": "taken"}, "has not ended yet"),
        ],
    )
    def test_that_is_refused_keeps_nothing(
        self, little_farm: Farm, browse: Browse, form: dict[str, str], sentence: str
    ) -> None:
        operations.submit("chat", {}, owner=little_farm.ada, unique_key="taken")
        uploads = [file("a.txt")] if form.get("names") == "one two" else [file("a.txt"), file("b.txt")]
        answer = send(browse, little_farm.ada, uploads=uploads, **form)
        assert answer.status_code == 422
        assert sentence in html.unescape(answer.content.decode())
        assert not Upload.objects.exists()

    def test_says_at_the_field_that_a_file_has_no_room(
        self, little_farm: Farm, browse: Browse, settings: Settings
    ) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "FILE_BYTES": 3}
        answer = send(browse, little_farm.ada, uploads=[file("a.txt")])
        assert "The file has 5 bytes" in answer.content.decode()
        settings.JOBFARM = {**settings.JOBFARM, "FILE_BYTES": 100, "FILES_PER_OWNER": 1}
        answer = send(browse, little_farm.ada, uploads=[file("a.txt"), file("b.txt")])
        assert "Quota of one owner, files: 1 allowed" in answer.content.decode()
        assert not Upload.objects.exists()

    def test_takes_no_more_files_than_a_job_may_have(self, little_farm: Farm, browse: Browse) -> None:
        answer = send(browse, little_farm.ada, uploads=[file(f"{n}.txt") for n in range(17)])
        assert "at most 16 of them" in answer.content.decode()
        assert not Upload.objects.exists()


class TestACopy:
    def _address(self, job: Job) -> str:
        return f"/jobs/new/?kind=other&like={job.pk}"

    def test_offers_what_the_job_has_and_keeps_what_stays_chosen(
        self, little_farm: Farm, browse: Browse, job: Job
    ) -> None:
        page = browse(little_farm.bob).get(self._address(job)).content.decode()
        assert page.count('type="checkbox" name="kept"') == page.count(" checked") == len(GIVEN)
        kept = ["audio", "note"]
        answer = send(browse, little_farm.bob, self._address(job), kept=kept, uploads=[file("c.txt")], names="new")
        assert answer.status_code == 302, answer.content.decode()
        copy = Job.objects.latest("pk")
        assert copy.owner == little_farm.bob
        given = {use.name: use.upload_id for use in copy.input_files.all()}
        assert given.keys() == {"audio", "note", "new"}
        assert given["audio"] == Input.objects.get(job=job, name="audio").upload_id

    def test_may_have_another_file_under_a_name_that_is_not_kept(
        self, little_farm: Farm, browse: Browse, job: Job
    ) -> None:
        both = send(browse, little_farm.ada, self._address(job), kept=["audio"], uploads=[file("c.ogg")], names="audio")
        assert "Two files have the same name" in both.content.decode()
        send(browse, little_farm.ada, self._address(job), uploads=[file("c.ogg")], names="audio")
        [given] = Job.objects.latest("pk").input_files.all()
        assert (given.name, given.filename) == ("audio", "c.ogg")

    def test_of_a_job_that_is_not_ones_own_takes_no_files(self, little_farm: Farm, browse: Browse, job: Job) -> None:
        assert send(browse, little_farm.eve, self._address(job), kept=["audio"]).status_code == 404
        answer = send(browse, little_farm.ada, self._address(little_farm.job), kept=["audio"])
        assert answer.status_code == 302  # that job has none: there is nothing to keep
        assert not Job.objects.latest("pk").input_files.exists()


def test_the_command_lists_them(job: Job) -> None:
    out = StringIO()
    call_command("jobs", "show", str(job.pk), stdout=out)
    assert f"input    audio: sound.ogg, {len(SCRIPT)} bytes" in out.getvalue()


class TestALongPayload:
    @pytest.fixture
    def long(self, little_farm: Farm) -> Job:
        """A job of Ada's whose payload has a picture of two megabytes."""
        cutting = Cutting(at=(), over=1_000_000, most=50_000_000, subject="payload")
        payload = cut({"prompt": "?", "picture": "data:image/png;base64," + "iVBO" * 500_000}, cutting)
        return operations.submit("chat", payload, owner=little_farm.ada)

    def test_is_shown_with_its_parts_by_place_to_save(self, little_farm: Farm, browse: Browse, long: Job) -> None:
        page = html.unescape(browse(little_farm.ada).get(f"/jobs/{long.pk}/").content.decode())
        [part] = Input.objects.all()
        assert f'<a href="inputs/{part.name}" download>picture</a>' in page
        assert '"begins": "data:image/png;base64,' in page
        assert len(page) < 100_000
        saved = browse(little_farm.ada).get(f"/jobs/{long.pk}/inputs/{part.name}")
        assert body(saved).startswith(b'"data:image/png;base64,iVBO')
        assert browse(little_farm.eve).get(f"/jobs/{long.pk}/inputs/{part.name}").status_code == 404

    def test_is_that_of_an_edited_copy_where_it_was_not_edited(
        self, little_farm: Farm, browse: Browse, long: Job
    ) -> None:
        long = Job.objects.whole().get(pk=long.pk)
        for picture, whole in [(long.payload["picture"], True), ("none", False)]:
            fields = {"kind_name": "chat", "payload_text": json.dumps({"prompt": "!", "picture": picture})}
            answer = browse(little_farm.ada).post(f"/jobs/new/?kind=other&like={long.pk}", {**fields, "delay_min": "0"})
            assert answer.status_code == 302, answer.content.decode()
            copy = Job.objects.whole().latest("pk")
            payload = operations.whole_payload(copy)
            assert (payload["prompt"], len(payload["picture"])) == ("!", 2_000_022 if whole else 4)
        assert Upload.objects.count() == 1

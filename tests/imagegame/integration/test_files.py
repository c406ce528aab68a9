"""Pictures: seen by who may see them, through links that run out, from a disk or from a bucket."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import httpx
import pytest
from django.contrib.auth.models import User
from django.core import signing
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage, storages
from django.test import Client
from moto.server import ThreadedMotoServer
from pytest_django import Settings

from examples.imagegame.domain.stages import Stage
from examples.imagegame.models import Submission
from jobfarm import health, middleware
from jobfarm.environment import values
from jobs import http, operations
from jobs.errors import LinkRanOut
from jobs.models import ResultFile
from jobs.operations import content
from tests import farm
from tests.imagegame.integration import players
from tests.imagegame.integration.players import party_at

pytestmark = pytest.mark.django_db

PAGE = b"<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _files(settings: Settings, tmp_path: Path) -> None:
    """A place of its own for files."""
    settings.MEDIA_ROOT = tmp_path


def _as(person: User | None) -> Client:
    client = Client()
    if person is not None:
        client.force_login(person)
    return client


def _body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def _status(person: User | None, path: str) -> int:
    answer = _as(person).get(path)
    if answer.streaming:
        _body(answer)  # read to its end, as a browser does, it closes the file
    return answer.status_code


def _link(picture: Submission) -> str:
    """Where a link to a picture is made."""
    return f"/jobs/{picture.job_id}/files/picture.png/link"


class TestWhoSeesAPicture:
    def test_is_its_owner_and_after_it_is_on_the_table_its_players(self) -> None:
        made = party_at(Stage.PAINTING, 3)
        ada, bob, _ = made.people
        mine = players.picture(ada, made.painter)
        address = f"/game/pictures/{mine.pk}/"
        stranger = farm.user("stranger")
        assert [_status(person, address) for person in (ada, bob, stranger)] == [200, 404, 404]
        assert _as(None).get(address).headers["Location"] == f"/accounts/login/?next={address}"

    def test_in_a_later_round_is_nobody_else_before(self) -> None:
        made = party_at(Stage.NAMING, 2)
        ada, bob = made.people
        first, second = (f"/game/pictures/{one.submission_id}/" for one in made.game.rounds.order_by("number"))
        assert [_status(bob, first), _status(ada, second)] == [200, 404]
        answer = _as(bob).get(first)
        assert _body(answer) == players.png()
        assert answer.headers["Content-Type"] == "image/png"
        made.name_all()
        made.guess_all()
        made.go_on()
        assert _status(ada, second) == 200

    def test_is_nobody_once_its_job_is_forgotten(self, settings: Settings) -> None:
        ada, painter = farm.user(), players.painter()
        mine = players.picture(ada, painter)
        settings.JOBFARM = settings.JOBFARM | {"RETENTION_DAYS": 0}
        assert farm.retain() == 1
        assert _status(ada, f"/game/pictures/{mine.pk}/") == 404
        assert _status(ada, _link(mine)) == 404


class TestASignedLink:
    def test_shows_the_picture_to_anybody_and_then_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ada = farm.user()
        mine = players.picture(ada, players.painter())
        page = _as(ada).get(_link(mine)).content.decode()
        [path] = set(re.findall(r"http://testserver(/files/[^\s\"<]+)", page))
        answer = Client().get(path)
        assert (answer.status_code, _body(answer)) == (200, players.png())
        assert answer.headers["Cache-Control"] == "private, no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        later = signing.time.time() + http.SIGNED_FOR_S + 1  # type: ignore[attr-defined]
        monkeypatch.setattr(signing.time, "time", lambda: later)  # type: ignore[attr-defined]
        gone = Client().get(path)
        assert gone.status_code == 410
        assert "expired" in gone.content.decode()

    def test_is_made_for_ones_own_pictures_only(self) -> None:
        made = party_at(Stage.NAMING, 2)
        first = made.on_the_table().submission
        gallery = _as(made.people[0]).get("/game/gallery/").content.decode()
        assert f'href="{_link(first)}?fence=1"' in gallery
        assert [_status(person, _link(first)) for person in made.people] == [200, 404]
        assert Client().get(_link(first)).status_code == 302  # to the log-in

    @pytest.mark.parametrize("how", ["changed", "cut", "empty", "of another kind"])
    def test_that_was_not_made_here_shows_nothing(self, how: str) -> None:
        mine = players.picture(farm.user(), players.painter())
        token = http.signed_path(ResultFile.objects.get(job_id=mine.job_id)).removeprefix("/files/")
        forged = {
            "changed": token[:-1] + ("A" if token[-1] != "A" else "B"),
            "cut": token.partition(":")[0],
            "empty": ":",
            "of another kind": signing.dumps([mine.job_id, 1, "picture.png"], salt="something else"),
        }[how]
        with pytest.raises(LinkRanOut):
            http.read_signed(forged)
        assert Client().get(f"/files/{forged}").status_code == 410

    def test_says_what_file_and_nothing_but(self) -> None:
        mine = players.picture(farm.user(), players.painter())
        stored = ResultFile.objects.get(job_id=mine.job_id)
        token = http.signed_path(stored).removeprefix("/files/")
        assert http.read_signed(token) == (stored.job_id, 1, "picture.png")


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of an S3 on this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A farm that keeps its files there; the name of the bucket."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    client = boto3.client("s3", endpoint_url=s3, region_name="us-east-1")
    client.create_bucket(Bucket="pictures")
    kept, settings.FILES_ORIGIN = values.files_storage(f"s3://pictures/farm?endpoint={s3}")
    settings.STORAGES = settings.STORAGES | {"default": kept}
    yield "pictures"
    for entry in client.list_objects_v2(Bucket="pictures").get("Contents", []):
        client.delete_object(Bucket="pictures", Key=entry["Key"])
    client.delete_bucket(Bucket="pictures")
    client.close()


class TestInABucket:
    def test_a_picture_is_kept_shown_by_a_signed_redirect_and_forgotten(self, bucket: str, s3: str) -> None:
        ada = farm.user()
        mine = players.picture(ada, players.painter())
        answer = _as(ada).get(f"/game/pictures/{mine.pk}/")
        assert answer.status_code == 302
        assert answer.headers["Cache-Control"] == "private, max-age=240"
        address = urlsplit(answer.headers["Location"])
        query = parse_qs(address.query)
        assert f"{address.scheme}://{address.netloc}{address.path}" == (
            f"{s3}/{bucket}/farm/jobs/{mine.job_id}/1/picture.png"
        )
        assert query["X-Amz-Expires"] == ["300"]
        shown = httpx.get(answer.headers["Location"])
        assert (shown.status_code, shown.content) == (200, players.png())
        assert shown.headers["Content-Type"] == "image/png"
        assert shown.headers["Content-Disposition"] == 'inline; filename="picture.png"'
        stored = ResultFile.objects.get()
        assert stored.size == len(players.png())
        assert storages["default"].exists(stored.stored_as)
        content.delete_files(names=[stored.stored_as])
        assert not storages["default"].exists(stored.stored_as)
        assert httpx.get(answer.headers["Location"]).status_code in {403, 404}  # S3 says either

    def test_what_is_no_picture_is_only_saved_whatever_its_worker_says(self, bucket: str) -> None:
        ada, painter = farm.user(), players.painter()
        job = operations.submit("image", {"prompt": "a page"}, owner=ada)
        players.paint(painter, farm.claim_one(painter), name="page.html", data=PAGE)
        answer = _as(ada).get(f"/jobs/{job.pk}/files/page.html?v={ResultFile.objects.get().sha256[:16]}")
        assert answer.headers["Cache-Control"] == "private, max-age=240"  # not for a year: the address runs out
        saved = httpx.get(answer.headers["Location"])
        assert (saved.content, saved.headers["Content-Type"]) == (PAGE, "application/octet-stream")
        assert saved.headers["Content-Disposition"] == 'attachment; filename="page.html"'

    def test_a_replaced_file_is_gone_from_it(self, bucket: str, django_capture_on_commit_callbacks: object) -> None:
        painter = players.painter()
        operations.submit("image", {"prompt": "twice"}, owner=farm.user())
        claimed = farm.claim_one(painter)
        with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
            players.paint(painter, claimed, data=b"first")
            first = ResultFile.objects.get().stored_as
            players.paint(painter, claimed, data=b"second")
        stored = ResultFile.objects.get().stored_as
        assert stored != first
        assert [storages["default"].exists(name) for name in (first, stored)] == [False, True]

    def test_what_no_row_names_is_found_and_the_rest_stays(self, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
        players.picture(farm.user(), players.painter())
        kept = ResultFile.objects.get().stored_as
        lost = default_storage.save("jobs/1/1/lost.txt", ContentFile(b"x"))
        # Folder by folder it would be two requests, which are paid for, for each job that has files.
        monkeypatch.setattr(type(storages["default"]), "listdir", None)
        assert operations.delete_orphaned_files(now=farm.now() + timedelta(hours=2)) == [lost]
        assert [default_storage.exists(name) for name in (kept, lost)] == [True, False]

    def test_pages_may_show_pictures_from_there_and_from_nowhere_else(self, bucket: str, s3: str) -> None:
        policy = Client().get("/accounts/login/").headers["Content-Security-Policy"]
        assert policy == middleware.POLICY.replace("img-src 'self'", f"img-src 'self' {s3}")

    def test_the_doctor_says_when_it_cannot_be_used(self, bucket: str, s3: str, settings: Settings) -> None:
        def requests() -> list[str]:
            return [finding.sentence for finding in health._files()]

        assert requests() == []
        settings.STORAGES = settings.STORAGES | {
            "default": values.files_storage(f"s3://no-such-bucket?endpoint={s3}")[0]
        }
        [sentence] = requests()
        assert sentence.startswith("The bucket for result files cannot be used: ")

    def test_a_delete_that_fails_is_an_error_of_the_system_as_on_a_disk(self, bucket: str, settings: Settings) -> None:
        nobody = values.files_storage("s3://pictures?endpoint=http://127.0.0.1:1")[0]
        settings.STORAGES = settings.STORAGES | {"default": nobody}
        with pytest.raises(OSError, match="could not be deleted"):
            storages["default"].delete("jobs/1/1/picture.png")


class TestFilesUrl:
    def test_is_the_disk_when_there_is_none(self) -> None:
        assert values.files_storage(None) == values.files_storage("") == (values.DISK, None)

    @pytest.mark.parametrize(
        ("url", "origin", "options"),
        [
            (
                "s3://pictures",
                "https://pictures.s3.us-east-1.amazonaws.com",
                {"region_name": "us-east-1", "addressing_style": "virtual", "location": ""},
            ),
            (
                "s3://my.pictures/a/b/?region=eu-central-1",
                "https://s3.eu-central-1.amazonaws.com",
                {"region_name": "eu-central-1", "addressing_style": "path", "location": "a/b"},
            ),
            (
                "s3://pictures/farm?endpoint=https://minio.example:9000",
                "https://minio.example:9000",
                {"endpoint_url": "https://minio.example:9000", "addressing_style": "path", "location": "farm"},
            ),
        ],
    )
    def test_says_where_files_lie(
        self, url: str, origin: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        bucket, theirs = values.files_storage(url)
        assert theirs == origin
        assert bucket["BACKEND"] == "jobfarm.s3.Files"
        assert bucket["OPTIONS"].items() >= options.items()
        made = storages.create_storage(bucket)
        assert isinstance(made, http.Elsewhere)
        address = made.signed_address("a b.png", content_type="image/png", disposition="inline", for_s=60)
        assert address.startswith(f"{origin}/")

    @pytest.mark.parametrize(
        "url",
        ["pictures", "gs://pictures", "s3://", "s3:///x", "s3://key:secret@pictures", "s3://pictures?regoin=x",
         "s3://pictures?endpoint=minio:9000"],
    )  # fmt: skip
    def test_that_makes_no_sense_is_refused_without_telling_a_key(self, url: str) -> None:
        with pytest.raises(ValueError, match="FILES_URL") as refusal:
            values.files_storage(url)
        assert "secret" not in str(refusal.value)

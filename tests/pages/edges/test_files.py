"""Result files: whose they are, as what they are sent, and nothing but what was handed in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile

from jobs import operations
from jobs.domain import payloads
from tests import farm
from tests.pages.edges.conftest import Browse, Farm
from tests.pages.edges.serving import served

pytestmark = pytest.mark.django_db(transaction=True)

HTML = b"<script>alert(1)</script>"


@pytest.fixture
def claimed(little_farm: Farm) -> operations.ClaimedJob:
    """The farm's job, running, with some files."""
    claimed = farm.claim_one(little_farm.worker)
    for name, content in {"a.png": b"\x89PNG first", "page.html": HTML, "vector.svg": HTML, "a.JPG": b"jpg"}.items():
        _put(little_farm, claimed, name, content)
    return claimed


def _put(little_farm: Farm, claimed: operations.ClaimedJob, name: str, content: bytes) -> None:
    operations.put_file(
        little_farm.worker, claimed.id, claimed.lease, name=name, content=ContentFile(content, name=name)
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a browser got."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def fetch(user: User | None, path: str, **headers: str) -> Answer:
    """Get a path over ASGI, as it is served: a warning about how a file is sent would be an error."""
    answer = served(user, path, headers)
    return Answer(answer.status_code, answer.headers, answer.content)


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "kind", "manner"),
        [
            ("a.png", "image/png", "inline"),
            ("a.JPG", "image/jpeg", "inline"),
            ("page.html", "application/octet-stream", "attachment"),
            ("vector.svg", "application/octet-stream", "attachment"),
        ],
    )
    def test_only_pictures_are_for_looking_at(
        self, little_farm: Farm, claimed: operations.ClaimedJob, name: str, kind: str, manner: str
    ) -> None:
        headers = fetch(little_farm.bob, f"/jobs/{claimed.id}/files/{name}").headers
        assert (headers["Content-Type"], headers["Content-Disposition"].partition(";")[0]) == (kind, manner)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in headers["Content-Security-Policy"]

    @pytest.mark.parametrize(
        "name",
        ["b.png", "../a.png", "..%2fa.png", "%2e%2e/a.png", ".", "%2e%2e", "a.png%00", "a.png/", "A.PNG", "1/a.png"],
    )
    def test_other_names_find_nothing(self, little_farm: Farm, claimed: operations.ClaimedJob, name: str) -> None:
        assert fetch(little_farm.ada, f"/jobs/{claimed.id}/files/{name}").status == 404

    def test_the_latest_attempts_file_wins(self, little_farm: Farm, claimed: operations.ClaimedJob) -> None:
        operations.release(little_farm.worker, claimed.id, claimed.lease)
        _put(little_farm, farm.claim_one(little_farm.worker), "a.png", b"second")
        path = f"/jobs/{claimed.id}/files/a.png"
        bodies = [fetch(little_farm.ada, f"{path}{query}").body for query in ("", "?fence=2", "?fence=1")]
        assert bodies == [b"second", b"second", b"\x89PNG first"]

    @pytest.mark.parametrize("attempt", ["3", "0", "-1", "x", "", "9" * 30, "%D9%A1"])
    def test_an_attempt_without_it_has_nothing(
        self, little_farm: Farm, claimed: operations.ClaimedJob, attempt: str
    ) -> None:
        path = f"/jobs/{claimed.id}/files/a.png?fence={attempt}"
        assert fetch(little_farm.ada, path).status == 404

    def test_is_not_sent_again_to_who_has_it(self, little_farm: Farm, claimed: operations.ClaimedJob) -> None:
        path = f"/jobs/{claimed.id}/files/a.png"
        known = {"If-None-Match": fetch(little_farm.ada, path).headers["ETag"]}
        again = fetch(little_farm.ada, path, **known)
        assert (again.status, again.body) == (304, b"")
        _put(little_farm, claimed, "a.png", b"painted further")
        changed = fetch(little_farm.ada, path, **known)
        assert (changed.status, changed.body) == (200, b"painted further")

    def test_only_an_address_that_names_its_bytes_is_kept_for_ever(
        self, little_farm: Farm, claimed: operations.ClaimedJob
    ) -> None:
        path = f"/jobs/{claimed.id}/files/a.png"
        sha256 = fetch(little_farm.ada, path).headers["ETag"].strip('"')
        kept = [fetch(little_farm.ada, f"{path}?v={v}").headers["Cache-Control"] for v in (sha256[:16], "other")]
        assert ["immutable" in cache for cache in kept] == [True, False]

    def test_a_share_link_opens_them_until_it_is_removed(
        self, little_farm: Farm, claimed: operations.ClaimedJob
    ) -> None:
        token = operations.share(claimed.id, by=little_farm.ada).token
        paths = [f"/jobs/shared/{token}/{rest}" for rest in ("files/a.png", "output/1", "")]
        assert [fetch(None, path).status for path in paths] == [200, 200, 200]
        operations.unshare(claimed.id, by=little_farm.ada)
        assert [fetch(None, path).status for path in paths] == [404, 404, 404]

    def test_a_big_file_arrives_whole(self, little_farm: Farm, claimed: operations.ClaimedJob) -> None:
        big = bytes(range(256)) * 1024
        _put(little_farm, claimed, "big.bin", big)
        assert fetch(little_farm.ada, f"/jobs/{claimed.id}/files/big.bin").body == big


class TestOutputAsText:
    def test_is_whole_and_of_one_attempt(
        self, little_farm: Farm, claimed: operations.ClaimedJob, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobs.views.files._PIECES", 2)
        for seq in range(5):
            operations.write_output(little_farm.worker, claimed.id, claimed.lease, seq=seq, text=f"ä{seq}\n")
        operations.release(little_farm.worker, claimed.id, claimed.lease)
        again = farm.claim_one(little_farm.worker)
        operations.write_output(little_farm.worker, again.id, again.lease, seq=0, text="second")
        bodies = [fetch(little_farm.ada, f"/jobs/{claimed.id}/output/{n}").body.decode() for n in (1, 2)]
        assert bodies == ["ä0\nä1\nä2\nä3\nä4\n", "second"]

    @pytest.mark.parametrize("attempt", ["0", "2", "9" * 30, "x"])
    def test_there_is_none_of_an_attempt_that_was_not(
        self, little_farm: Farm, claimed: operations.ClaimedJob, attempt: str
    ) -> None:
        assert fetch(little_farm.ada, f"/jobs/{claimed.id}/output/{attempt}").status == 404


class TestSharedPage:
    def test_says_neither_who_owns_it_nor_who_runs_it_nor_what_went_wrong(
        self, browse: Browse, little_farm: Farm, claimed: operations.ClaimedJob
    ) -> None:
        secret = "Traceback: /home/ada/secret.py"
        farm.fail(little_farm.worker, claimed, secret)
        token = operations.share(claimed.id, by=little_farm.ada).token
        answer = browse(None).get(f"/jobs/shared/{token}/")
        # Two letters stand in some random token now and then: those of the link and of forms are left out.
        text = answer.content.decode().replace(token, "").replace(str(answer.context["csrf_token"]), "")
        text = re.sub(r'data-live-version="[0-9a-f]+"', "", text)  # three of its letters may be a name
        assert [word for word in ("ada", "studio", "w1", secret, "<form") if word in text.replace("data-", "")] == []
        assert "Why is the sky blue?" in text
        assert (answer["Referrer-Policy"], answer["X-Robots-Tag"]) == ("no-referrer", "noindex")


class TestPictures:
    @pytest.mark.parametrize(
        ("names", "has_ended", "shown"),
        [
            ([], True, []),
            (["preview.png"], False, ["preview.png"]),
            (["preview.png"], True, ["preview.png"]),
            (["picture.png", "preview.png"], False, ["picture.png", "preview.png"]),
            (["picture.png", "preview.png"], True, ["picture.png"]),
            (["A.PNG", "b.jpeg", "c.svg", "d.txt", "png"], True, ["A.PNG", "b.jpeg"]),
        ],
    )
    def test_a_preview_gives_way_to_what_it_was_a_preview_of(
        self, names: list[str], has_ended: bool, shown: list[str]
    ) -> None:
        assert shown == payloads.pictures(names, has_ended=has_ended)

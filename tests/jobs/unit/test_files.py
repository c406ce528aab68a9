"""Names, types and ranges of files."""

import uuid

import pytest

from jobs.domain import files
from jobs.domain.files import Span
from jobs.errors import InvalidName, InvalidValue, NoSuchRange, UnknownFile
from tests.looped import looped


class TestARange:
    @looped(
        ("header", "span"),
        [
            ("bytes=0-0", (0, 1)),
            ("bytes=0-", (0, 10)),
            ("bytes=3-5", (3, 3)),
            ("bytes=9-", (9, 1)),
            ("bytes=3-500", (3, 7)),
            ("bytes=-4", (6, 4)),
            ("bytes=-400", (0, 10)),
        ],
    )
    def test_is_a_part_of_the_file(self, header: str, span: tuple[int, int]) -> None:
        assert files.span(header, size=10) == Span(start=span[0], length=span[1])

    @looped("header", ["", "bytes=", "bytes=-", "bytes=5-3", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b", "bytes=1"])
    def test_that_makes_no_sense_is_all_of_it(self, header: str) -> None:
        assert files.span(header, size=10) is None

    @pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0)])
    def test_behind_the_end_is_refused(self, header: str, size: int) -> None:
        with pytest.raises(NoSuchRange):
            files.span(header, size=size)


class TestAName:
    @looped(
        ("name", "plain"),
        [
            ("sound.ogg", "sound.ogg"),
            ("My sound (1).ogg", "My-sound-1.ogg"),
            ("../../etc/passwd", "passwd"),
            ("..\\..\\boot.ini", "boot.ini"),
            (".bashrc", "bashrc"),
            ("…", "file"),
            ("", "file"),
            ("..", "file"),
            ("a" * 200 + ".ogg", "a" * 96 + ".ogg"),
            ("a." + "b" * 200, "a." + "b" * 19),
            ("Größe.png", "Gr-e.png"),
        ],
    )
    def test_is_made_plain(self, name: str, plain: str) -> None:
        assert files.plain_name(name) == plain
        files.check_name(plain)

    @looped("name", ["", ".", "..", "a/b", ".hidden", "a\\b", "a\x00b", "ä", "a" * 101, "a b"])
    def test_that_is_not_plain_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidName):
            files.check_name(name)

    @looped(
        ("name", "kind"),
        [
            ("a.ogg", "audio/ogg"),
            ("A.PNG", "image/png"),
            ("a.txt", "text/plain"),
            ("a.html", "text/html"),
            ("a.svg", "image/svg+xml"),
            ("a.json", "application/json"),
            ("a", "application/octet-stream"),
            ("a.nothing", "application/octet-stream"),
        ],
    )
    def test_promises_a_type(self, name: str, kind: str) -> None:
        assert files.type_of(name) == kind


class TestReferences:
    def test_are_ids_by_name(self) -> None:
        one = uuid.uuid4()
        assert files.references({"a": str(one), "b": one}) == {"a": one, "b": one}

    def test_are_bounded(self) -> None:
        files.references({f"n{n}": uuid.uuid4() for n in range(16)})
        with pytest.raises(InvalidValue):
            files.references({f"n{n}": uuid.uuid4() for n in range(17)})

    def test_to_what_is_no_id_or_no_name_are_refused(self) -> None:
        with pytest.raises(UnknownFile):
            files.references({"a": "../7"})
        with pytest.raises(InvalidName):
            files.references({"../a": uuid.uuid4()})

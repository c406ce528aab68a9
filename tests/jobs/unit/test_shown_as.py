"""How a page shows a file."""

import pytest

from jobs.domain.payloads import shown_as


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("speech.MP3", "audio"), ("clip.webm", "video"), ("log.jsonl", "text"), ("model.bin", ""), ("page.html", ""),
        ("picture.svg", ""), ("mp3", ""),
    ],
)  # fmt: skip
def test_is_said_by_its_ending(name: str, kind: str) -> None:
    assert shown_as(name) == kind

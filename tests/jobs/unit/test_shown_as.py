"""How a page shows a file, and what a job is about."""

from typing import Any

from jobs.domain.payloads import shown_as, title
from tests.looped import looped


@looped(
    ("name", "kind"),
    [
        ("speech.MP3", "audio"), ("clip.webm", "video"), ("log.jsonl", "text"), ("model.bin", ""), ("page.html", ""),
        ("picture.svg", ""), ("mp3", ""),
    ],
)  # fmt: skip
def test_is_said_by_its_ending(name: str, kind: str) -> None:
    assert shown_as(name) == kind


@looped(
    ("payload", "about"),
    [
        ({"prompt": "a dog", "url": "https://x"}, "a dog"), ({"prompt": "", "url": "https://x"}, "https://x"),
        ({"text": ["no", "text"], "n": 1}, ""), ([1, 2], ""), ("words", ""), (None, ""),
    ],
)  # fmt: skip
def test_a_job_is_about_the_first_text_that_says_so(payload: Any, about: str) -> None:
    assert title(payload) == about

"""What has a page is a link to it: a queue, a worker, a kind or an owner that a template names stands in one."""

import re
from pathlib import Path
from typing import Final

from tests.looped import looped

TEMPLATES: Final = Path(__file__).parents[2] / "templates"  # pages of the examples have no list of jobs
# What is named by these has a page, or a list of jobs that is its page.
_NAMED: Final = re.compile(
    r"\{\{ (?:\w+\.)*(?:job|row|batch|queue|attempt|worker)\."
    r"(?:kind|queue|queues|steals|worker_name|owner\.get_username|group\.name)(?:\|(?!jobs_of|queue_link)[^}]*)? \}\}"
)
_SHOWN_ELSEWHERE: Final = re.compile(
    r"<a\b.*?</a>|<h1>.*?</h1>|<title>.*?</title>|\{% block title %\}.*?\{% endblock %\}|\"[^\"\n]*\""
    r"|\{% if audience == \"public\" %\}.*?\{% else %\}",
    re.DOTALL,
)
# For those who are not logged in, and see no list of jobs.
_WITHOUT_PAGES: Final = ("jobs/shared.html",)


def _plain(text: str) -> list[str]:
    return _NAMED.findall(_SHOWN_ELSEWHERE.sub("", text))


def test_names_of_what_has_a_page_are_links() -> None:
    plain = {}
    for path in sorted(TEMPLATES.rglob("*.html")):
        place = str(path.relative_to(TEMPLATES))
        if not place.startswith(_WITHOUT_PAGES) and (found := _plain(path.read_text())):
            plain[place] = found
    assert plain == {}, 'write {{ name|queue_link }}, {{ name|jobs_of:"kind" }} or {% worker_link job %}'


@looped(
    ("text", "count"),
    [
        ("<td>{{ job.queue }}</td>", 1),
        ("{{ row.worker.owner.get_username }}", 1),
        ('{{ row.worker.queues|join:", " }}', 1),
        ("{{ job.queue|queue_link }}", 0),
        ('<a href="/">{{ job.kind }}</a>', 0),
    ],
)
def test_a_plain_name_is_seen(text: str, count: int) -> None:
    assert len(_plain(text)) == count

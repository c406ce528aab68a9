"""docs/adr: one decision a page, one screen each; what these and other pages name exists."""

import re
from pathlib import Path

from tests.architecture.test_tidiness import ROOT, tracked
from tests.looped import looped

FOLDER = ROOT / "docs" / "adr"
PAGES = {int(path.name[:4]): path for path in sorted(FOLDER.glob("0*.md"))}
FILES = [f"/{path.relative_to(ROOT)}" for path in tracked()]
SCREEN = 48  # lines
WORDS = 350
TEXTS = ("*.py", "*.md", "*.sql", "*.js", "*.html", "Makefile", "pyproject.toml")

each_page = looped("path", PAGES.values(), ids=lambda path: path.name)


@each_page
def test_is_headed_by_its_number(path: Path) -> None:
    assert path.read_text().startswith(f"# {int(path.name[:4])}. ")


@each_page
def test_is_a_screen_of_few_words(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= SCREEN
    assert len(path.read_text().split()) <= WORDS
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


@each_page
def test_names_files_that_exist(path: Path) -> None:
    """A path in backticks is one of the tree, or the end of one: `sql/settle.sql`."""
    named = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|sql|md|json|js))`", path.read_text())
    missing = [name for name in named if not any(file.endswith(f"/{name}") for file in FILES)]
    assert missing == []


def test_every_reference_is_to_a_page_that_exists() -> None:
    gone: dict[str, list[str]] = {}
    for path in tracked(*TEXTS):
        numbers = re.findall(r"\bADR (\d+)\b|adr/(\d{4})\b", path.read_text())
        if old := [a or b for a, b in numbers if int(a or b) not in PAGES]:
            gone[str(path.relative_to(ROOT))] = old
    assert gone == {}, "say it without the page, or name the one that has it now"


@looped("path", tracked("docs/*.md", "README.md", "CHANGELOG.md"), ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", path.read_text())
    targets = [(path.parent / page if page else path, heading) for page, heading in links]
    assert [target for target, _ in targets if not target.exists()] == []
    assert [(target.name, heading) for target, heading in targets if heading and heading not in headings(target)] == []


def headings(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

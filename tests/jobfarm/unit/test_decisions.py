"""docs/adr: one decision a page, one screen each, all of them in the index, and what they name exists."""

import re
from pathlib import Path

from tests.architecture.test_tidiness import ROOT, tracked
from tests.looped import looped

FOLDER = ROOT / "docs" / "adr"
INDEX = (FOLDER / "README.md").read_text()
PAGES = {int(path.name[:4]): path for path in sorted(FOLDER.glob("0*.md"))}
FILES = [f"/{path.relative_to(ROOT)}" for path in tracked()]
SCREEN = 48  # lines
TEXTS = ("*.py", "*.md", "*.sql", "*.js", "*.html", "Makefile", "pyproject.toml")

each_page = looped("path", PAGES.values(), ids=lambda path: path.name)


def test_the_index_has_each_page_by_number_and_title() -> None:
    rows = re.findall(r"^- \[(\d+)\]\(([^)]+)\) (.+)$", INDEX, re.MULTILINE)
    titles = {number: path.read_text().splitlines()[0].removeprefix(f"# {number}. ") for number, path in PAGES.items()}
    assert rows == [(str(number), path.name, titles[number]) for number, path in PAGES.items()]


def test_a_merged_decision_has_no_page_of_its_own() -> None:
    statuses = [path.read_text().split("\n\n")[1] for path in PAGES.values()]
    included = "".join(status.partition("Includes what w")[2] for status in statuses)
    merged = {int(number) for number in re.findall(r"\b\d+\b", re.sub(r"\[\d+\]\(.*?\)", "", included))}
    assert merged & {8, 41, 99, 105} == {8, 41, 99, 105}
    assert merged & set(PAGES) == set()


@each_page
def test_is_a_screen_with_a_status(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= SCREEN
    assert lines[2].startswith("Status: accepted")
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
        # What a page includes is history, and stands in its status.
        text = re.sub(r"^Status:.*?\n\n", "", path.read_text(), count=1, flags=re.MULTILINE | re.DOTALL)
        numbers = re.findall(r"\bADR (\d+)\b|adr/(\d{4})\b", text)
        if old := [a or b for a, b in numbers if int(a or b) not in PAGES]:
            gone[str(path.relative_to(ROOT))] = old
    assert gone == {}, "docs/adr/README.md says where it is now"


@looped("path", tracked("docs/*.md", "README.md", "CHANGELOG.md"), ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)[^)]*\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []

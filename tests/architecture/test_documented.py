"""Every block of code in the documents is run by a test as it is printed, or its first line says why it is not."""

import ast
from collections.abc import Iterator

from tests import documented
from tests.architecture.test_tidiness import ROOT, tracked

EXCUSE = ("# Not run by the tests: ", "// Not run by the tests: ")
PAGES = ["README.md", *(path.name for path in tracked("docs/*.md") if path.parent.name == "docs")]
GENERATED = {"python.md"}  # signatures, which tests/jobfarm/unit/test_python_docs.py compares


def taken(source: str) -> Iterator[tuple[str, str]]:
    """Page and text of each block that these lines of a test take."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="documented"), attr="block" | "blocks" as call), args=args
            ):
                page, *more = (ast.literal_eval(one) for one in args)
                found = getattr(documented, call)(page, *more)
                yield from ((page, text) for text in ([found] if isinstance(found, str) else found))


def test_runs_every_block_or_says_why_not() -> None:
    run = {one for path in tracked("tests/*.py") for one in taken(path.read_text())}
    idle = [
        f"{page}:{block.line}"
        for page in PAGES
        if page not in GENERATED
        for block in documented.page(page)
        if block.language not in documented.NOT_CODE
        if (page, block.text) not in run and not block.text.startswith(EXCUSE)
    ]
    assert idle == [], "take it in a test with documented.block(), or say in its first line why it is not run"


def test_every_block_says_its_language() -> None:
    unsaid = [f"{page}:{block.line}" for page in PAGES for block in documented.page(page) if not block.language]
    assert unsaid == []


def test_nothing_that_is_run_has_an_excuse() -> None:
    run = {one for path in tracked("tests/*.py") for one in taken(path.read_text())}
    assert [page for page, text in run if text.startswith(EXCUSE)] == []


def test_sees_what_a_test_takes() -> None:
    source = 'START, *_ = documented.blocks("README.md", "sh")\nx = documented.block("states.md", "stateDiagram")\n'
    pages = [page for page, _ in taken(source)]
    assert pages == [*["README.md"] * (len(pages) - 1), "states.md"]
    assert len(pages) > 2
    assert ROOT.is_dir()

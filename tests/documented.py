"""The blocks of code that the documents print, for the tests that run them as printed.

tests/architecture/test_documented.py reads the calls of `block` and `blocks` in the tests' own source, so a page and a
beginning are written out where they are called: a block that no call takes must say in its first line why not.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

ROOT: Final = Path(__file__).parents[1]
NOT_CODE: Final = ("text", "mermaid")  # what a program prints, and pictures


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language ("" for one that is only indented), its text, and its line in the page."""

    language: str
    text: str
    line: int


@cache
def page(name: str) -> tuple[Block, ...]:
    """All blocks of README.md or of a page in docs/, in their order. The blocks of a list have no indent."""
    source = ROOT / name if name == "README.md" else ROOT / "docs" / name
    tokens = MarkdownIt().parse(source.read_text())
    return tuple(
        Block(language=token.info, text=token.content, line=(token.map or [0])[0] + 1)
        for token in tokens
        if token.type in {"fence", "code_block"}
    )


def blocks(name: str, language: str = "") -> list[str]:
    """The texts of a page's blocks in this language (of all that is code, if none is given), in their order."""
    return [block.text for block in page(name) if _fits(block, language)]


def block(name: str, beginning: str) -> str:
    """The text of the one block that begins so; a ValueError where none or several do."""
    [text] = [block.text for block in page(name) if block.text.startswith(beginning)]
    return text


def _fits(block: Block, language: str) -> bool:
    return block.language == language if language else block.language not in NOT_CODE

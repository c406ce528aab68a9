"""Write into docs/front-door.md which fields of a call the worker passes, maps and leaves out, as its tables say.

`make docs` calls this; tests/worker/unit/test_dialect_docs.py fails when the page is not what it writes.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from jobfarm_worker.handlers import messages_request

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "front-door.md"
BEGIN: Final = "<!-- make docs: the fields of a message -->\n"
END: Final = "<!-- to here -->\n"


def page() -> str:
    """The page with the table as it is to be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + "\n".join(["", *_rows(), "", END]) + rest.partition(END)[2]


def _rows() -> Iterator[str]:
    yield from ("| field | of a server without `/v1/messages` |", "| --- | --- |")
    yield f"| {_names(messages_request.PASSED)} | passed |"
    yield from (f"| `{name}` | mapped: {what} |" for name, what in messages_request.MAPPED.items())
    yield f"| {_names(messages_request.LEFT_OUT)}, and all others | left out with a note |"
    yield "| tools with a `type` of their own, as `web_search` | left out with a note |"
    yield from (f"| content: `{name}` | {what} |" for name, what in messages_request.BLOCKS.items())
    yield "| content of other types | left out with a note |"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(page())

"""Write into docs/front-door.md which fields of a call the worker passes, maps and leaves out, as its tables say.

`make docs` calls this; tests/worker/unit/test_dialect_docs.py fails when the page is not what it writes.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from jobfarm_worker.handlers import messages_request, responses_request

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "front-door.md"
BEGIN: Final = "<!-- make docs: the fields of a {} -->\n"
END: Final = "<!-- to here -->\n"


def page() -> str:
    """The page with the tables as they are to be."""
    text = PAGE.read_text()
    for what, rows in (("response", _response()), ("message", _message())):
        before, begin, rest = text.partition(BEGIN.format(what))
        text = before + begin + "\n".join(["", *rows, "", END]) + rest.partition(END)[2]
    return text


def _response() -> Iterator[str]:
    names = responses_request
    yield from ("| field | of a server without `/v1/responses` |", "| --- | --- |")
    yield f"| {_names(names.PASSED)} | passed |"
    yield f"| {_names(names.FARMS)} | the farm's, see below |"
    yield from _mapped(names.MAPPED)
    yield f"| {_names(names.LEFT_OUT)}, and all others | left out with a note |"
    yield from (f"| `{name}` | refused: {why} |" for name, why in names.REFUSED.items())
    yield from (f"| `input`: `{name}` | {what} |" for name, what in names.ITEMS.items())
    yield "| `input`: items of other types | refused |"


def _message() -> Iterator[str]:
    names = messages_request
    yield from ("| field | of a server without `/v1/messages` |", "| --- | --- |")
    yield f"| {_names(names.PASSED)} | passed |"
    yield from _mapped(names.MAPPED)
    yield f"| {_names(names.LEFT_OUT)}, and all others | left out with a note |"
    yield "| tools with a `type` of their own, as `web_search` | left out with a note |"
    yield from (f"| content: `{name}` | {what} |" for name, what in names.BLOCKS.items())
    yield "| content of other types | left out with a note |"
    yield "| a last message of the assistant's (prefill) | sent with a note: the server may not continue it |"


def _mapped(names: Mapping[str, str]) -> Iterator[str]:
    return (f"| `{name}` | mapped: {what} |" for name, what in names.items())


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(page())

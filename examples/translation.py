"""A document in three languages as a flow: it is split, its parts are translated at the same time, and what comes of
that is joined (docs/examples.md).

`JOBS` is what `submit_flow` and a flow template take, `document` the handler of a worker that does the steps. It knows
no language: a translation is marked with the language that it would be in.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any, Final

LANGUAGES: Final = ("de", "es", "fr")
PARTS: Final = 4
PACE_S: Final = 0.3  # a paragraph, so that the flow's page has something to show
_NAMES: Final = {f"{language} {part + 1}": (language, part) for language, part in product(LANGUAGES, range(PARTS))}

JOBS: Final[list[dict[str, Any]]] = [
    {"name": "split", "kind": "document", "payload": {"step": "split", "document": "{{ document }}"}},
    *(
        {
            "name": name, "kind": "document", "after": ["split"],
            "payload": {"step": "translate", "language": language, "part": part},
        }
        for name, (language, part) in _NAMES.items()
    ),
    {"name": "join", "kind": "document", "after": [*_NAMES], "payload": {"step": "join"}},
]  # fmt: skip


def document(job: Any) -> dict[str, Any]:
    """Do one step. What it needs of earlier ones is what these handed in (`job.after`)."""
    match job.payload["step"]:
        case "split":
            return {"parts": split(job.payload["document"])}
        case "translate":
            [before] = job.after
            return {"text": _translated(job, before.result["parts"][job.payload["part"]])}
        case _:
            return {"documents": joined({one.name: one.result["text"] for one in job.after})}


def split(text: str) -> list[str]:
    """The paragraphs of a text in PARTS parts of about as many each."""
    paragraphs = [one.strip() for one in text.split("\n\n") if one.strip()]
    bounds = [len(paragraphs) * part // PARTS for part in range(PARTS + 1)]
    return ["\n\n".join(paragraphs[first:last]) for first, last in pairwise(bounds)]


def joined(texts: Mapping[str, str]) -> dict[str, str]:
    """Of each language its parts in their order; `texts` by the names of the steps."""
    documents: dict[str, list[str]] = defaultdict(list)
    for name, (language, _) in _NAMES.items():
        documents[language] += [texts[name]] if texts[name] else []
    return {language: "\n\n".join(parts) for language, parts in documents.items()}


def _translated(job: Any, text: str) -> str:
    done = []
    paragraphs = text.split("\n\n") if text else []
    for number, paragraph in enumerate(paragraphs, start=1):
        time.sleep(PACE_S)
        job.progress(number / len(paragraphs), f"Paragraph {number} of {len(paragraphs)}")
        done.append(f"[{job.payload['language']}] {paragraph}")
    return "\n\n".join(done)

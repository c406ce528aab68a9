"""The steps of a document in three languages, a flow: it is split, its parts are translated at the same time, a person
approves what came of that, and it is joined (docs/examples.md).

`JOBS` is what `submit_flow` and a flow template take, `document` the handler of a worker that does the steps. It knows
no language: a translation is marked with the language that it would be in.
"""

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any, Final

KIND: Final = "document"
LANGUAGES: Final = ("de", "es", "fr")
PARTS: Final = 4
PACE_S: Final = 0.3  # a paragraph, so that the flow's page has something to show
APPROVAL_S: Final = 7 * 86400
YES: Final = "join them"
FORM: Final = {
    "properties": {"verdict": {"enum": [YES, "drop them"], "title": "The translations"}, "note": {"type": "string"}},
    "required": ["verdict"],
}
_NAMES: Final = {f"{language} {part + 1}": (language, part) for language, part in product(LANGUAGES, range(PARTS))}

JOBS: Final[list[dict[str, Any]]] = [
    {"name": "split", "kind": KIND, "payload": {"step": "split", "document": "{{ document }}"}},
    *(
        {
            "name": name, "kind": KIND, "after": ["split"],
            "payload": {"step": "translate", "language": language, "part": part},
        }
        for name, (language, part) in _NAMES.items()
    ),
    {"name": "approve", "kind": KIND, "after": [*_NAMES], "payload": {"step": "approve"}},
    {"name": "join", "kind": KIND, "after": ["approve"], "payload": {"step": "join"}},
]  # fmt: skip


def document(job: Any) -> Any:
    """Do one step. What it needs of earlier ones is what these handed in (`job.after`)."""
    before = {one.name: one.result for one in job.after}
    match job.payload["step"]:
        case "split":
            return {"parts": split(job.payload["document"])}
        case "translate":
            return {"text": _translated(job, before["split"]["parts"][job.payload["part"]])}
        case "approve":
            return _approved(job, {name: result["text"] for name, result in before.items()})
        case _:
            approved = before["approve"]
            documents = joined(approved["texts"]) if approved["verdict"] == YES else {}
            return {"documents": documents, "verdict": approved["verdict"]}


def split(text: str) -> list[str]:
    """The paragraphs of a text in PARTS parts of about as many each."""
    paragraphs = [one.strip() for one in text.replace("\r\n", "\n").split("\n\n") if one.strip()]
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
        job.pause(PACE_S)
        job.progress(number / len(paragraphs), f"Paragraph {number} of {len(paragraphs)}")
        done.append(f"[{job.payload['language']}] {paragraph}")
    return "\n\n".join(done)


def _approved(job: Any, texts: Mapping[str, str]) -> Any:
    """Show what was translated and wait, without a worker, for a person's verdict; then hand in both."""
    if job.signal is None:
        job.write("\n\n".join(joined(texts).values()))
        return job.wait_for(signal="approved", schema=FORM, timeout=APPROVAL_S)
    sent = {"verdict": "nobody said anything in time"} if job.signal.timed_out else job.signal.data
    return {"texts": texts, "verdict": sent["verdict"], "note": sent.get("note", "")}

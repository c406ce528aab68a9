"""What comes in and what goes out: deliveries of an inbox and events of an outbox.

A call "deliver" of a sender has `more` = {"delivery": name}; "process" is what the inbox says of one that it processed.
"emit" is an event as the outbox has it, in their order: {"event": id, "subject": what it is about}; "arrive" is a
request of it at the receiver.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.histories.history import FOREVER, Call, History


def faults(history: History) -> Iterator[str]:
    """What was lost, doubled, made up or out of order. Whether anything is missing is asked of a run that came to rest
    (`states`)."""
    is_over = history.states is not None
    yield from _of_inbox(_named(history.calls, "deliver"), _named(history.calls, "process"), is_over=is_over)
    yield from _of_outbox(_named(history.calls, "emit"), _named(history.calls, "arrive"), is_over=is_over)


def _named(calls: Sequence[Call], what: str) -> Mapping[str, list[Call]]:
    """The calls of this name, by what they are about, in their order."""
    found: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.call == what and call.outcome != "failed":
            found[call.more.get("delivery") or call.more["event"]].append(call)
    return found


def _of_inbox(sent: Mapping[str, list[Call]], processed: Mapping[str, list[Call]], *, is_over: bool) -> Iterator[str]:
    for name, calls in processed.items():
        if len(calls) > 1:
            yield f"the delivery {name} was processed {len(calls)} times"
        if name not in sent:
            yield f"the delivery {name} was processed, and nobody sent it"
        elif calls[0].over < min(call.began for call in sent[name]):
            yield f"the delivery {name} was processed before it was sent"
    for name in sent.keys() - processed.keys() if is_over else ():
        if any(call.outcome == "ok" for call in sent[name]):
            yield f"the delivery {name} was answered yes, and never processed"


def _of_outbox(written: Mapping[str, list[Call]], arrived: Mapping[str, list[Call]], *, is_over: bool) -> Iterator[str]:
    first = {event: min(call.began for call in calls) for event, calls in arrived.items()}
    latest: dict[str, tuple[float, str]] = {}
    for event, calls in written.items():
        if len(calls) > 1:
            yield f"the event {event} was written {len(calls)} times"
        if event in first and first[event] < calls[0].began:
            yield f"the event {event} arrived before it was written"
        if event not in first and is_over:
            yield f"the event {event} never arrived"
        subject, at = calls[0].more["subject"], first.get(event, FOREVER)
        before = latest.get(subject, (0.0, ""))
        if at < before[0] < FOREVER:
            yield f"of {subject} the event {event} arrived before {before[1]}, which is earlier"
        latest[subject] = max(before, (at, event))
    for event in arrived.keys() - written.keys():
        yield f"the event {event} arrived, and is none of the farm's"

"""Whether the last submit of a key was run: a job that newer submits replace is given out as the last of them has it.

A call "push" has `more` = {"of": job, "label": its payload's}, a call "given" the same of what a claim brought."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.histories.history import Call


def faults(calls: Sequence[Call]) -> Iterator[str]:
    """A push may be overtaken by one that was made meanwhile, and by none that was made after its answer. One whose
    answer nobody heard may be any."""
    pushes: dict[int, dict[str, Call]] = defaultdict(dict)
    for call in calls:
        if call.call == "push":
            pushes[call.more["of"]][call.more["label"]] = call
    for given in calls:
        if given.call != "given" or given.more["label"] not in pushes[given.more["of"]]:
            continue
        mine = pushes[given.more["of"]][given.more["label"]]
        for later in pushes[given.more["of"]].values():
            if mine.over < later.began and later.over < given.began:
                yield f"job {given.more['of']}: {given} brought an earlier push than the one of {later}"

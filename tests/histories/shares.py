"""Fair queues: who comes for the first time begins with the next slot that becomes free (docs/adr/0121).

A submit says `fair`, its queue, and `share`, whose it is. A new share counts as served no more than whoever is served
next, so until its first job is claimed another one gets a job whose turn it was, and one where both are alike."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.histories.history import Call, History

MOST: Final = 2
REPEATS_S: Final = 30.0  # after a claim whose answer was lost a worker may be given the same jobs once more

Claims = Mapping[int | None, Call]


def faults(history: History) -> Iterator[str]:
    """Which share was passed over when it came."""
    claims = _claims(history.calls)
    queues: dict[str, dict[str, list[Call]]] = defaultdict(lambda: defaultdict(list))
    for call in history.calls:
        if call.call == "submit" and "share" in call.more:
            queues[call.more["fair"]][call.more["share"]].append(call)
    for queue, shares in queues.items():
        jobs = {call.job: share for share, calls in shares.items() for call in calls if call.job in claims}
        for share, calls in shares.items():
            if found := _passed_over(share, min(calls, key=lambda call: call.began), jobs, claims):
                yield f"queue {queue}: {found}"


def _passed_over(share: str, first: Call, jobs: Mapping[int | None, str], claims: Claims) -> str | None:
    mine = [claims[job] for job, whose in jobs.items() if whose == share]
    # A first claim whose answer nobody heard may have been before all others.
    if first.outcome != "ok" or not mine or any(claim.fence != 1 for claim in mine):
        return None
    until = min(claim.began for claim in mine)
    others: dict[str, list[int]] = defaultdict(list)
    for job, whose in jobs.items():
        if job is not None and whose != share and first.over <= claims[job].began and claims[job].over <= until:
            others[whose].append(job)
    for whose, begun in others.items():
        if len(begun) > MOST:
            return f"{whose} got the jobs {sorted(begun)} from {first.over:.3f} to {until:.3f}, and {share} none"
    return None


def _claims(calls: Sequence[Call]) -> Claims:
    """The first claim of each job that was answered to somebody; not such as may be the answer of an earlier one."""
    found: dict[int | None, Call] = {}
    unheard: dict[int | str | None, list[float]] = defaultdict(list)
    for call in calls:
        if call.call == "claim" and call.outcome == "unknown":
            unheard[call.worker].append(call.began)
        elif call.call == "claim" and call.outcome == "ok":
            found[call.job] = min(found.get(call.job, call), call, key=lambda claim: claim.fence or 0)
    return {
        job: claim
        for job, claim in found.items()
        if not any(0 <= claim.began - began <= REPEATS_S for began in unheard[claim.worker])
    }

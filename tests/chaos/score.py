"""What is printed, while it goes on and at the end."""

import statistics
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.chaos.load import Book
from tests.chaos.truth import Findings

SHOWN = 20  # sentences of each sort


@dataclass(slots=True)
class Score:
    """Which faults there were, and how long the farm took to be well again after each."""

    began_at: float = field(default_factory=time.monotonic)
    faults: Counter[str] = field(default_factory=Counter)
    recovered_s: list[float] = field(default_factory=list)
    sockets: int = 0  # that a page lost on the way
    cuts: int = 0  # of answers to workers
    grown: list[str] = field(default_factory=list)  # what the farm needs more and more of

    def note(self, group: str, name: str, recovered_s: float) -> None:
        """One fault is over."""
        self.faults[group] += 1
        self.recovered_s.append(recovered_s)
        self.say(f"{group}: {name}; well again after {recovered_s:.1f} s")

    def say(self, words: str) -> None:
        """A line with the time since the beginning."""
        print(f"{time.monotonic() - self.began_at:6.1f} s  {words}", flush=True)

    def show(self, book: Book, findings: Findings, *, stuck: list[str]) -> bool:
        """Print it all; whether it is as it should be."""
        wrong = {
            "lost": findings.lost,
            "doubled": findings.doubled,
            "timed out though somebody could have done it": findings.timed_out,
            "untrue pages": findings.untrue,
            "events lost": findings.events_lost,
            "out of order per job": findings.out_of_order,
            "contradictions in the history": findings.contradictions,
            "grown": self.grown,
        }
        for what, sentences in wrong.items():
            for sentence in sentences[:SHOWN]:
                print(f"{what}: {sentence}")
        faults = ", ".join(f"{count} {group}" for group, count in sorted(self.faults.items()))
        unanswered = sum(book.unanswered.values())
        print(f"\nfaults           {self.faults.total()} ({faults})")
        print(f"jobs             {len(book.jobs)}, {len(book.verdicts)} of them canceled")
        print(f"                 {findings.timeouts} of them timed out")
        print(f"other claims     {_sentence(findings.ends)}")
        print(f"functions        {len(book.functions)}, and {len(book.rolled_back)} rolled back")
        print(f"deliveries       {len(book.deliveries)}, {book.resent} of them sent again")
        print(f"events           {findings.events}, which came {findings.arrivals} times")
        print(f"decisions        {book.grants + book.denials}, {book.grants} of them granted")
        print(f"without answer   {unanswered} ({_sentence(book.unanswered)})")
        print(f"open page        lost its socket {self.sockets} times")
        print(f"answers cut      {self.cuts}")
        for what, sentences in wrong.items():
            print(f"{what:44} {len(sentences)}")
        print(f"{'did not end':44} {len(stuck)} {' '.join(stuck)}")
        if self.recovered_s:
            median, worst = statistics.median(self.recovered_s), max(self.recovered_s)
            print(f"time to recover  {median:.1f} s in the median, {worst:.1f} s at worst")
        return not any(wrong.values()) and not stuck


def _sentence(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {count}" for key, count in sorted(counts.items()))

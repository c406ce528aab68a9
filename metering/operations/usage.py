"""What one job used, for its page."""

from dataclasses import dataclass

from metering.domain.budgets import Unit
from metering.operations import titles
from postgres import statements


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """What a job used in all its ended attempts. `model` is empty where its kind reports no tokens; `is_estimated`: an
    attempt did not say what it used."""

    attempts: int
    seconds: float
    model: str
    tokens_in: int
    tokens_out: int
    cost: str
    is_estimated: bool

    @property
    def sentence(self) -> str:
        """For people: "3.2 s in 2 attempts; 120 tokens in, 45 out; 0.01 USD"."""
        tries = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        parts = [f"{self.seconds:,.1f} s in {tries}"]
        if self.model:
            estimated = " (estimated from what was written)" if self.is_estimated else ""
            parts.append(f"{self.tokens_in:,} tokens in, {self.tokens_out:,} out{estimated}")
        return "; ".join([*parts, *([self.cost] if self.cost else [])])


def of_job(job_id: int) -> JobUsage | None:
    """What this job used; None while none of its attempts has ended."""
    [row] = statements.load("metering", "of_job").run({"job": job_id})
    if not row.attempts:
        return None
    cost = titles.amount(row.cost, Unit.MONEY) if row.cost else ""
    return JobUsage(
        attempts=row.attempts, seconds=row.seconds, model=row.model or "", tokens_in=row.tokens_in,
        tokens_out=row.tokens_out, cost=cost, is_estimated=row.is_estimated,
    )  # fmt: skip

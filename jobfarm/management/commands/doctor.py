import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobfarm import health
from jobfarm.findings import Finding, Level
from jobs.operations import broken_jobs

WORDS = {Level.FINE: "ok", Level.STARTING: "wait", Level.WARNING: "look", Level.ERROR: "WRONG"}
_MOST_BROKEN = 20


class Command(BaseCommand):
    """Print every finding. Exit code 0: nothing is wrong, though something may be worth a look; 1: something is."""

    help = (
        "Say what is wrong with this farm and what to do about it. Exit code 1 if something is WRONG, else 0. "
        "A check that fails, or takes longer than 10 s, is itself a finding."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--jobs", action="store_true", help="also look at the row of every job")

    def handle(self, *, jobs: bool, **_: Any) -> None:
        findings = self._findings()
        broken = broken_jobs(most=_MOST_BROKEN) if jobs else []
        for job_id, fault in broken:
            self.stdout.write(f"{WORDS[Level.ERROR]:>5}  Job {job_id} {fault}.")
        if jobs and not broken:
            self.stdout.write(f"{WORDS[Level.FINE]:>5}  Every row of a job is whole.")
        if broken or any(finding.level is Level.ERROR for finding in findings):
            sys.exit(1)

    def _findings(self) -> list[Finding]:
        findings = []
        for finding in health.examine():
            findings.append(finding)
            self.stdout.write(f"{WORDS[finding.level]:>5}  {finding.sentence}")
            if finding.remedy:
                self.stdout.write(f"       {finding.remedy}")
        return findings

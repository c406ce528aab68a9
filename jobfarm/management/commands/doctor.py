"""`manage.py doctor`: what is wrong, and what to do."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from jobfarm import health
from jobfarm.findings import Level

WORDS = {Level.FINE: "ok", Level.STARTING: "wait", Level.WARNING: "look", Level.ERROR: "WRONG"}


class Command(BaseCommand):
    """Print every finding. Exit code 0: nothing is wrong, though something may be worth a look; 1: something is."""

    help = (
        "Say what is wrong with this farm and what to do about it. Exit code 1 if something is WRONG, else 0. "
        "A check that fails, or takes longer than 10 s, is itself a finding."
    )

    def handle(self, **_: Any) -> None:
        """Look at everything."""
        findings = []
        for finding in health.examine():
            findings.append(finding)
            self.stdout.write(f"{WORDS[finding.level]:>5}  {finding.sentence}")
            if finding.remedy:
                self.stdout.write(f"       {finding.remedy}")
        if any(finding.level is Level.ERROR for finding in findings):
            sys.exit(1)

"""What the doctor says of this process."""

from jobfarm import presence
from jobs.domain.presence import Part
from jobs.operations.workers import Presence


def named_errors() -> str:
    """The errors that the doctor names when this process has reported as janitors do."""
    Presence(part=Part.JANITOR).report()
    return " ".join(finding.remedy for finding in presence.errors())

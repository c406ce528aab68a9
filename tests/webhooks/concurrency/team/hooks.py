"""The rule that this app declares: each issue that is opened starts a job."""

from typing import Any

import webhooks
from tests.webhooks.concurrency.team import RULE


@webhooks.on("github", "issues.opened", kind="triage", name=RULE)
def triage(event: webhooks.Event) -> Any:
    """Which issue it is about."""
    return {"number": event.body["issue"]["number"]}

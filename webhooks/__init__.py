"""A durable inbox for webhooks: verified, stored, then answered; processed once, retried, replayable.

`webhooks.on("github", "push", kind="deploy")` in an app's `hooks.py` has deliveries start jobs.
"""

from webhooks.handlers.registry import Event as Event, on as on

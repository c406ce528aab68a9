"""What others use: `from alerts import operations as alerts`. Conditions are registered in `alerts.registry`."""

from alerts.operations.judging import CRON, TOPIC, judge, watch
from alerts.operations.rules import change, make, mute, remove, send_test
from alerts.operations.sending import fail_forgotten, send

__all__ = [
    "CRON", "TOPIC", "change", "fail_forgotten", "judge", "make", "mute", "remove", "send", "send_test",
    "watch",
]  # fmt: skip

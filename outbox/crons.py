"""What is done regularly. Each is in the admin with its next firings, its history, pause and run now."""

from outbox.operations.replays import retain
from scheduling.operations import Missed, daily, declare

declare("outbox retention", daily(hour=3, minute=20), retain, missed=Missed.ONCE)

"""What is done regularly. Rules are judged every minute: a farm without rules reads one empty list."""

from alerts import operations
from scheduling.operations import Missed, daily, declare, interval

declare(operations.CRON, interval(minutes=1), operations.watch)
declare("forget notifications", daily(hour=4, minute=20), operations.forget, missed=Missed.ONCE)

"""What is done regularly. The roll-up fires within a minute after jobs were counted, and rarely otherwise."""

from metering import operations
from scheduling.operations import Missed, daily, declare, interval

declare(operations.COUNT_USAGE, interval(minutes=15), operations.roll_up)
declare("forget usage", daily(hour=4, minute=40), operations.forget, missed=Missed.ONCE)

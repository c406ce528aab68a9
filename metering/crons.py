"""What is done regularly. On a farm where nothing happens the roll-up is four short statements."""

from metering import operations
from scheduling.operations import Missed, daily, declare, interval

declare("count usage", interval(minutes=1), operations.roll_up)
declare("forget usage", daily(hour=4, minute=40), operations.forget, missed=Missed.ONCE)

"""What of limits is done by the clock."""

from ratelimits import operations
from scheduling.operations import declare, interval

declare("prune limits", interval(minutes=15), operations.prune)

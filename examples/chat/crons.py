"""What happens by the clock."""

from examples.chat import operations
from scheduling.operations import declare, interval

declare("chat reconciliation", interval(minutes=15), operations.reconcile)

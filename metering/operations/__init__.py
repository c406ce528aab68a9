"""What can be done with usage and budgets, by whoever comes from another app."""

from metering.domain import Period, Tokens, Unit, Written, expected, used
from metering.errors import OverBudget
from metering.operations.budgets import Balance, announce, balances, change, make, remove
from metering.operations.meter import METER, forget_known
from metering.operations.rollup import COUNT_USAGE, TOPIC, amount, forget, of_job, roll_up
from metering.registry import declare

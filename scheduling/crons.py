"""The scheduler's own cron."""

from scheduling.operations import declare, interval, retain

declare("forget old functions", interval(minutes=15), retain)

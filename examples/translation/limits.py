"""How often a person may start it: each time are fifteen jobs."""

from datetime import timedelta

from ratelimits.operations import TokenBucket, declare

START = declare("translation/start", TokenBucket(4, timedelta(minutes=1), capacity=4))

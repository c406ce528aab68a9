"""How often somebody may fail to log in."""

from datetime import timedelta

from ratelimits.operations import TokenBucket, declare

# Failed ones, by the name that was tried and by the address that tried it. A success gives back what it took.
LOG_IN = declare("log-in", TokenBucket(10, timedelta(hours=1)))
# Links that open nothing, by address. Apart from LOG_IN: who mistyped a password ten times is sent a link.
LINK = declare("log-in/link", TokenBucket(10, timedelta(hours=1)))

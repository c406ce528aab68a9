"""How often one member may have many messages sent once more."""

from datetime import timedelta

from ratelimits.operations import TokenBucket, declare

# By person; operators are free. Each is up to 500 messages a second for as long as it lasts.
REPLAYS = declare("outbox/replays", TokenBucket(2, timedelta(minutes=1), capacity=5))

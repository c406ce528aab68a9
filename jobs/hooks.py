"""What jobs take from other apps."""

from jobs.operations import signal_addresses
from outbox import operations as outbox

outbox.register_scheme(signal_addresses.SCHEME, check=signal_addresses.check, take=signal_addresses.take)

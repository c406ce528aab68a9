"""The rules of the outbox: addresses, events, signatures, retries. No Django, no clock."""

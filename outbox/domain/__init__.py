"""The rules of the outbox: addresses, retries, events, endpoints, signatures. No Django, no clock."""

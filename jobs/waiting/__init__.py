"""Waiting outside of Django, where it costs neither a thread nor a connection (ADR 9)."""

"""Who waits for an answer: outside of Django, without thread and connection (docs/adr/0009, docs/adr/0084)."""

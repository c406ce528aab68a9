"""The rules of jobs as plain Python: no Django, no database, no clock, no dice of its own."""

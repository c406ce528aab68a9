"""The rules, in plain Python: no Django, no clock, no dice."""

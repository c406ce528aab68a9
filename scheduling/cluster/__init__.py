"""The processes that run scheduled functions: django-q2's pool, with a broker, a queue and a watch of ours.

This package is the only place that knows django-q2. docs/adr/0011 tells what is replaced and why.
"""

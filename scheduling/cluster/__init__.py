"""The processes that run scheduled functions: django-q2's pool, with a broker, a queue and a watch of ours.

Its module django_q2 is the only one that knows django-q2. docs/adr/0011 tells what is replaced and why.
"""

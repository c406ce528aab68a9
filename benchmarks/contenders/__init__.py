"""Each contender by itself: a script that knows the verbs of `verbs.py`."""

"""What writes call: touch the topics that became stale."""

import threading
import weakref
from collections import defaultdict
from functools import partial

from django.db import DEFAULT_DB_ALIAS, transaction

from live import publishing
from live import topics as topic_names
from live.registry import Item


def touch(*topics: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """Tell all who watch these topics that what they show is stale.

    Inside a transaction the topics are gathered and published after its commit, outside of it, each once; a
    rollback, also one to a savepoint, takes its topics along. Outside a transaction they are published at
    once. A message that cannot be published is logged and never raised: it is a hint, the slow poll makes up
    for it. Call it from synchronous code, in any thread. Raises BadTopic. The rule is promise 9 of the
    design.
    """
    if not topics:
        return
    touched = _Touch(frozenset(map(topic_names.checked, topics)), using)
    _uncommitted.of[using].add(touched)
    transaction.on_commit(touched.publish, using=using, robust=True)


def append(topic: str, item: Item, *, using: str = DEFAULT_DB_ALIAS) -> None:
    """`touch` this topic because of a stream's next item and nothing else: after the commit, who watches the stream in
    this process and has what the item `follows` gets it as it is, and does not read. Raises BadTopic."""
    topic = topic_names.checked(topic)
    publish = partial(publishing.publish, [topic], {topic: [item]})
    transaction.on_commit(publish, using=using, robust=True)


# Note [How topics of one transaction become one message]
# Every touch is an on_commit hook of its own, so Django itself forgets those whose savepoint was rolled back.
# The hook that runs first publishes for all that are still there, and the others find nothing left to do.
# Which ones are still there is in a WeakSet: nobody but Django's list of hooks holds a touch. Should
# something else hold one (a debugger, a traceback), a topic too many is published, never one too few.
class _Touch:
    __slots__ = ("__weakref__", "is_published", "topics", "using")

    def __init__(self, topics: frozenset[str], using: str) -> None:
        self.topics = topics
        self.using = using
        self.is_published = False

    def publish(self) -> None:
        if self.is_published:
            return
        together = list(_uncommitted.of.pop(self.using, ()))
        for touched in together:
            touched.is_published = True
        publishing.publish(sorted(self.topics.union(*(touched.topics for touched in together))))


class _Uncommitted(threading.local):  # as Django's connections are one for each thread
    def __init__(self) -> None:
        self.of: defaultdict[str, weakref.WeakSet[_Touch]] = defaultdict(weakref.WeakSet)


_uncommitted = _Uncommitted()

"""What writes call: touch the topics that became stale."""

from django.db import DEFAULT_DB_ALIAS, transaction

from live import publishing
from live import topics as topic_names
from live.registry import Item
from postgres.transactions import Gathered

_touched = Gathered(publishing.publish)


def touch(*topics: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """Tell all who watch these topics that what they show is stale.

    Inside a transaction the topics are gathered and published after its commit, outside of it, each once; a rollback,
    also one to a savepoint, takes its topics along. Outside a transaction they are published at once. A message that
    cannot be published is logged and never raised: it is a hint, the slow poll makes up for it. Call it from
    synchronous code, in any thread. Raises BadTopic. The rule is promise 9 of the design.
    """
    _touched.add(map(topic_names.checked, topics), using=using)


def append(topic: str, item: Item, *, using: str = DEFAULT_DB_ALIAS) -> None:
    """`touch` this topic because of a stream's next item and nothing else: after the commit, who watches the stream in
    this process and has what the item `follows` gets it as it is, and does not read. Raises BadTopic."""
    topic = topic_names.checked(topic)
    transaction.on_commit(lambda: publishing.publish([topic], {topic: [item]}), using=using, robust=True)

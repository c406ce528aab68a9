"""Who is called back, with which topics."""

from live import RECONNECTED
from live.hub import Subscription, Subscriptions


def test_calls_each_back_once_with_its_own_topics() -> None:
    subscriptions = Subscriptions()
    one: list[set[str]] = []
    two: list[set[str]] = []
    subscriptions.add(["a", "b"], one.append)
    subscriptions.add(["b", "c:*", "c:1"], two.append)
    subscriptions.notify(["a", "b", "c:1", "c:2", "d"])
    assert (one, two) == ([{"a", "b"}], [{"b", "c:1", "c:2"}])


def test_calls_everybody_back_after_a_loss_also_who_watches_no_topic() -> None:
    subscriptions = Subscriptions()
    received: list[set[str]] = []
    subscriptions.add(["a"], received.append)
    subscriptions.add([], received.append)
    subscriptions.notify([RECONNECTED, "a"])
    assert received == [{RECONNECTED}, {RECONNECTED}]


def test_calls_nobody_back_whom_an_earlier_callback_ended() -> None:
    subscriptions = Subscriptions()
    received: list[set[str]] = []
    later: list[Subscription] = []
    subscriptions.add(["a"], lambda _: later[0].close())
    later.append(subscriptions.add(["a"], received.append))
    subscriptions.notify(["a"])
    assert received == []


def test_keeps_nothing_of_who_left() -> None:
    subscriptions = Subscriptions()
    for subscription in [subscriptions.add(["a", "b:*"], print) for _ in range(3)]:
        subscription.close()
        subscription.close()
    assert not subscriptions
    assert (subscriptions._exact, subscriptions._prefixes) == ({}, {})


def test_sets_go_to_each_as_its_own() -> None:
    """A callback that empties its set takes nothing from the others."""
    subscriptions = Subscriptions()
    received: list[set[str]] = []
    subscriptions.add(["a"], lambda topics: topics.clear())
    subscriptions.add(["a"], received.append)
    subscriptions.notify(["a"])
    assert received == [{"a"}]

"""When a rule's alerts fire, are repeated and are resolved, and which of it is said in which message."""

from dataclasses import replace
from datetime import timedelta

import pytest

from alerts.domain.judging import FORGOTTEN, MOST, Policy, State
from alerts.domain.rules import Observation
from tests.alerts.unit.rules import BEGIN, MINUTE, Judged, above

NOTHING = above()
HOURLY = Policy(repeat=timedelta(hours=1))


def test_is_sent_once_then_each_time_the_repeat_is_over_then_as_resolved() -> None:
    rule = Judged(HOURLY)
    rule.during(range(131), above("chat"))
    rule.during(range(131, 200), NOTHING)
    assert rule.sent == [(0, "chat", ""), (60, "chat", ""), (120, "chat", ""), (131, "", "chat")]
    assert rule.memory.alerts == {}


def test_is_sent_only_once_without_a_repeat() -> None:
    rule = Judged()
    rule.during(range(3000), above("chat"))
    assert rule.sent == [(0, "chat", "")]


def test_fires_when_it_held_for_so_long_and_not_before() -> None:
    rule = Judged(Policy(hold=10 * MINUTE))
    rule.during(range(9), above("chat"))
    rule.at(9, NOTHING)
    rule.during(range(10, 31), above("chat"))
    assert rule.sent == [(20, "chat", "")]


def test_goes_on_firing_until_it_did_not_hold_for_so_long() -> None:
    """What comes and goes within that time is one alert and one message."""
    rule = Judged(Policy(keep_firing=10 * MINUTE))
    for minute in range(100):
        rule.at(minute, above("chat") if minute % 5 == 0 else NOTHING)
    rule.during(range(100, 120), NOTHING)
    assert rule.sent == [(0, "chat", ""), (106, "", "chat")]


def test_says_several_in_one_message() -> None:
    rule = Judged()
    rule.at(0, above("chat", "images"))
    assert rule.sent == [(0, "chat images", "")]


def test_gathers_what_changes_shortly_after_a_message_in_the_next_one() -> None:
    rule = Judged()
    rule.at(0, above("a"))
    rule.at(1, above("a", "b"))
    rule.at(2, above("a", "b", "c"))
    rule.at(3, above("b", "c"))
    rule.at(5, above("b", "c"))
    assert rule.sent == [(0, "a", ""), (5, "b c", "a")]
    assert [alert.subject for alert in rule.messages[1][1].new] == ["b", "c"]


def test_says_nothing_of_what_came_and_went_between_two_messages() -> None:
    rule = Judged()
    rule.at(0, above("a"))
    rule.at(1, above("a", "b"))
    rule.at(2, above("a"))
    rule.during(range(3, 30), above("a"))
    assert rule.sent == [(0, "a", "")]


def test_says_nothing_of_what_ended_and_began_again_between_two_messages() -> None:
    rule = Judged()
    rule.at(0, above("a"))
    rule.at(1, NOTHING)
    rule.during(range(2, 30), above("a"))
    assert rule.sent == [(0, "a", "")]


def test_what_is_not_known_resolves_nothing_and_is_still_repeated() -> None:
    rule = Judged(HOURLY)
    rule.at(0, above("chat"))
    rule.during(range(1, 62), None)
    assert rule.sent == [(0, "chat", ""), (60, "chat", "")]
    assert rule.memory.alerts["chat"].state is State.FIRING


def test_what_is_not_known_makes_nothing_fire() -> None:
    rule = Judged(Policy(hold=3 * MINUTE))
    rule.at(0, above("chat"))
    rule.during(range(1, 30), None)
    rule.at(30, above("chat"))
    assert rule.sent == []
    rule.during(range(31, 34), above("chat"))
    assert rule.sent == [(33, "chat", "")]


@pytest.mark.parametrize("keep_firing", [timedelta(minutes=10), timedelta(minutes=30)])
def test_a_farm_that_was_down_while_it_fired_resolves_it_only_after_it_was_up_for_so_long(
    keep_firing: timedelta,
) -> None:
    rule = Judged(Policy(keep_firing=keep_firing))
    rule.at(0, above("chat"))
    rule.at(1, NOTHING)
    minutes = int(keep_firing / MINUTE)
    rule.during(range(600, 600 + minutes), NOTHING)
    assert rule.sent == [(0, "chat", "")]
    rule.at(600 + minutes, NOTHING)
    assert rule.sent[1:] == [(600 + minutes, "", "chat")]


def test_a_farm_that_was_down_counts_anew_for_how_long_a_condition_holds() -> None:
    rule = Judged(Policy(hold=10 * MINUTE))
    rule.at(0, above("chat"))
    rule.at(600, above("chat"))
    assert rule.sent == []
    rule.during(range(601, 611), above("chat"))
    assert rule.sent == [(610, "chat", "")]


def test_sends_nothing_while_it_is_muted_and_says_afterwards_what_is_so_then() -> None:
    rule = Judged(HOURLY)
    rule.at(0, above("a", "b"))
    rule.policy = replace(HOURLY, muted_until=BEGIN + 90 * MINUTE)
    rule.during(range(1, 30), above("a", "b"))
    rule.during(range(30, 60), above("a", "c"))
    rule.during(range(60, 91), above("a", "d"))
    assert rule.sent == [(0, "a b", ""), (90, "a d", "b")]


def test_says_nothing_of_what_fired_and_ended_while_it_was_muted() -> None:
    rule = Judged(replace(HOURLY, muted_until=BEGIN + 60 * MINUTE))
    rule.during(range(30), above("a"))
    rule.during(range(30, 200), NOTHING)
    assert rule.sent == []


def test_ignores_a_reading_that_is_not_newer_than_what_was_judged() -> None:
    """Of two clusters that judge at once, one comes second: with an older reading, or with one of the same moment."""
    rule = Judged()
    rule.at(10, above("chat"))
    before = rule.memory
    for read in (9, 10):
        rule.at(20, NOTHING, read=read)
        assert rule.memory.alerts == before.alerts


def test_a_clock_that_goes_back_neither_resolves_nor_silences_anything() -> None:
    rule = Judged(HOURLY)
    rule.at(600, above("chat"))
    rule.during(range(61), above("chat"))
    assert rule.sent == [(600, "chat", ""), (60, "chat", "")]
    rule.during(range(61, 70), NOTHING)
    assert rule.sent[2:] == [(65, "", "chat")]


def test_a_clock_that_jumps_ahead_repeats_once_and_fires_nothing_early() -> None:
    rule = Judged(Policy(hold=10 * MINUTE, repeat=timedelta(hours=1)))
    rule.during(range(11), above("chat"))
    rule.at(11, above("chat", "new"))
    rule.during(range(5000, 5005), above("chat", "new"))
    assert rule.sent == [(10, "chat", ""), (5000, "chat", "")]


def test_has_a_bounded_number_of_alerts_and_counts_the_others() -> None:
    rule = Judged()
    many = Observation(above={f"kind-{number}": float(number) for number in range(5000)})
    message = rule.at(0, many)
    assert message is not None
    assert len(message.firing) == len(rule.memory.alerts) == MOST
    assert (message.omitted, message.firing[0].subject) == (5000 - MOST, "kind-4999")


def test_what_had_no_room_is_next_when_there_is_some() -> None:
    rule = Judged()
    names = [f"kind-{number:04}" for number in range(MOST + 1)]
    rule.at(0, above(*names))
    rule.during(range(10, 20), above(*names[1:]))
    assert [minute for minute, *_ in rule.sent] == [0, 10, 15]
    assert [alert.subject for alert in rule.messages[2][1].new] == [names[-1]]


class TestReadingsOfAPart:
    """Such as the disk of one machine: of the others nothing is known."""

    def test_resolve_only_what_they_are_about(self) -> None:
        rule = Judged()
        rule.at(0, Observation(above={"one": 95.0}, below=frozenset()))
        rule.at(6, Observation(above={"two": 95.0}, below=frozenset()))
        rule.during(range(7, 30), Observation(below=frozenset({"two"})))
        assert rule.sent == [(0, "one", ""), (6, "one two", ""), (11, "one", "two")]

    def test_let_what_is_not_known_for_a_day_be_forgotten_without_a_message(self) -> None:
        rule = Judged()
        rule.at(0, Observation(above={"gone": 95.0}, below=frozenset()))
        for minute in range(1, int(FORGOTTEN / MINUTE) + 3):
            rule.at(minute, Observation(below=frozenset({"two"})))
        assert rule.sent == [(0, "gone", "")]
        assert rule.memory.alerts == {}

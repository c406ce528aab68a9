"""What holds of a rule whatever is observed, and whenever it is judged."""

import itertools

from hypothesis import given, strategies as st

from alerts.domain.judging import GROUP, Policy, State
from alerts.domain.rules import Observation
from tests.alerts.unit.rules import BEGIN, MINUTE, Judged, above

SUBJECTS = st.sampled_from(["a", "b", "c"])
OBSERVATIONS = st.none() | st.builds(
    Observation,
    above=st.dictionaries(SUBJECTS, st.floats(1, 100), max_size=3),
    below=st.none() | st.frozensets(SUBJECTS),
)
POLICIES = st.builds(
    Policy,
    hold=st.integers(0, 5).map(lambda n: n * MINUTE),
    keep_firing=st.integers(0, 20).map(lambda n: n * MINUTE),
    repeat=st.sampled_from([0, 5, 30]).map(lambda n: n * MINUTE),
    muted_until=st.none() | st.integers(0, 60).map(lambda n: BEGIN + n * MINUTE),
)
STEPS = st.lists(st.tuples(st.integers(1, 30), OBSERVATIONS), max_size=40)


def run(policy: Policy, steps: list[tuple[int, Observation | None]]) -> tuple[Judged, int]:
    """A rule that was judged by these observations, each so many minutes after the one before; and the last minute."""
    rule, minute = Judged(policy), 0
    for wait, observation in steps:
        minute += wait
        rule.at(minute, observation)
    return rule, minute


@given(POLICIES, STEPS)
def test_a_message_says_resolved_of_what_another_said_fires_and_only_once(
    policy: Policy, steps: list[tuple[int, Observation | None]]
) -> None:
    rule, _ = run(policy, steps)
    firing: set[str] = set()
    for _, message in rule.messages:
        resolved = {alert.subject for alert in message.resolved}
        assert resolved <= firing
        firing = {alert.subject for alert in message.firing}
        assert not resolved & firing


@given(POLICIES, STEPS)
def test_what_fires_is_resolved_by_nothing_but_an_observation_that_it_does_not_hold(
    policy: Policy, steps: list[tuple[int, Observation | None]]
) -> None:
    rule, minute = Judged(policy), 0
    for wait, observation in steps:
        minute += wait
        before = rule.memory.alerts
        rule.at(minute, observation)
        for subject, alert in before.items():
            now = rule.memory.alerts.get(subject)
            if alert.state is State.FIRING and (now is None or now.state is not State.FIRING):
                assert observation is not None
                assert observation.is_below(subject)


@given(POLICIES, STEPS)
def test_messages_keep_their_distance_and_a_mute(policy: Policy, steps: list[tuple[int, Observation | None]]) -> None:
    rule, _ = run(policy, steps)
    minutes = [minute for minute, _ in rule.messages]
    assert all(later - earlier >= GROUP / MINUTE for earlier, later in itertools.pairwise(minutes))
    if policy.muted_until is not None:
        assert all(BEGIN + minute * MINUTE >= policy.muted_until for minute in minutes)


@given(POLICIES, STEPS, st.booleans())
def test_what_stays_as_it_is_is_said_in_the_end(
    policy: Policy, steps: list[tuple[int, Observation | None]], holds: bool
) -> None:
    """Whatever went before: who reads the messages knows how it stands."""
    rule, minute = run(policy, steps)
    rule.during(range(minute + 1, minute + 100), above("a") if holds else above())
    alert = rule.memory.alerts.get("a")
    assert (alert is not None) is holds
    assert alert is None or (alert.state is State.FIRING and alert.is_notified)
    last = rule.messages[-1][1] if rule.messages else None
    assert ("a" in {one.subject for one in last.firing} if last else False) is holds


@given(POLICIES, STEPS)
def test_a_judgement_that_is_repeated_sends_nothing_more(
    policy: Policy, steps: list[tuple[int, Observation | None]]
) -> None:
    """As when a second cluster judges by the same reading."""
    rule, minute = run(policy, steps)
    sent = len(rule.messages)
    for _, observation in steps[-1:]:
        rule.at(minute, observation)
    assert len(rule.messages) == sent


@given(POLICIES, STEPS, st.integers(1, 10_000))
def test_no_moment_of_a_rule_lies_ahead_when_it_was_judged(
    policy: Policy, steps: list[tuple[int, Observation | None]], back: int
) -> None:
    rule, minute = run(policy, steps)
    now = BEGIN + (minute - back) * MINUTE
    rule.at(minute - back, above("a"))
    kept = [rule.memory.observed_at, rule.memory.notified_at]
    for alert in rule.memory.alerts.values():
        kept += [alert.since, alert.known_at, alert.below_since]
    assert all(moment is None or moment <= now for moment in kept)

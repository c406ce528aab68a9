"""What a rule may be, how numbers are written, and what a message says."""

from datetime import UTC, datetime
from typing import Any

import pytest

from alerts.domain import judging, rules
from alerts.domain.judging import Alert, Message, State
from alerts.domain.rules import Condition, Measure, Reading, Unit
from alerts.errors import BadRule
from tests.looped import looped

WAIT = Condition(code="jobs_wait", title="A job waits", target="queue", unit=Unit.SECONDS, threshold=900)
SHARE = Condition(code="share", title="Jobs fail", target="queue", unit=Unit.PERCENT)
AWAY = Condition(code="away", title="No janitor runs", unit=Unit.PRESENCE)
VALUES = {
    "name": "Waits", "target": "", "threshold": 900.0, "window_s": 900, "hold_s": 0, "keep_firing_s": 300,
    "repeat_s": 14400, "severity": "warning", "mail_to": "ops@example.org", "is_enabled": True,
}  # fmt: skip


def alert(subject: str, value: float = 1500.0, *, is_notified: bool = True) -> Alert:
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return Alert(subject=subject, state=State.FIRING, value=value, since=at, known_at=at, is_notified=is_notified)


def text(message: Message, condition: Condition = WAIT) -> judging.Text:
    return judging.compose(
        message, rule="Waits", severity="critical", condition=condition, threshold=900,
        url="https://farm.example.org/alerts/",
    )  # fmt: skip


def test_a_message_says_what_fires_what_is_new_and_what_is_resolved() -> None:
    new = alert("images", is_notified=False)
    sent = text(Message(firing=(alert("chat"), new), new=(new,), resolved=(alert("sound", 60),)))
    assert sent.title == "[FIRING:2] Waits"
    assert sent.body == (
        "Waits: firing (critical).\nA job waits: more than 15 min.\n\n"
        "Firing:\n- chat: 25 min, since 2026-03-01 12:00 UTC\n- images: 25 min, since 2026-03-01 12:00 UTC, new\n\n"
        "Resolved:\n- sound: 60 s, since 2026-03-01 12:00 UTC\n\nhttps://farm.example.org/alerts/\n"
    )


def test_a_message_that_is_repeated_says_so_and_the_last_one_that_it_is_over() -> None:
    assert text(Message(firing=(alert("chat"),))).body.startswith("Waits: still firing (critical).\n")
    over = text(Message(resolved=(alert("chat"),)))
    assert (over.title, over.body.splitlines()[0]) == ("[RESOLVED] Waits", "Waits: resolved.")


def test_a_condition_without_numbers_is_a_sentence() -> None:
    body = text(Message(firing=(alert("", 1),)), AWAY).body
    assert "No janitor runs.\n" in body
    assert "- No janitor runs, since 2026-03-01 12:00 UTC\n" in body


def test_a_message_names_some_of_many_and_counts_the_others() -> None:
    sent = text(Message(firing=tuple(alert(f"kind-{n}") for n in range(200)), omitted=4800))
    assert sent.title == "[FIRING:5000] Waits"
    assert sent.body.count("- kind-") == judging.LISTED
    assert "- and 4,980 more\n" in sent.body
    assert len(sent.body) < 2000


def test_a_subject_that_somebody_chose_adds_no_line_to_a_message() -> None:
    sent = text(Message(firing=(alert("chat\nBcc: x\u202e" + "y" * 1000),)))
    assert "\nBcc" not in sent.body
    assert max(map(len, sent.body.splitlines())) < 200


@looped(
    ("value", "unit", "words"),
    [
        (59.6, Unit.SECONDS, "60 s"), (119, Unit.SECONDS, "119 s"), (120, Unit.SECONDS, "2 min"),
        (7199, Unit.SECONDS, "119 min"), (7200, Unit.SECONDS, "2 h"), (200000, Unit.SECONDS, "2 days"),
        (33.333, Unit.PERCENT, "33.3 %"), (100, Unit.PERCENT, "100 %"), (12000, Unit.NUMBER, "12,000"),
        (1, Unit.PRESENCE, ""),
    ],
)  # fmt: skip
def test_a_number_is_written_in_its_unit(value: float, unit: Unit, words: str) -> None:
    assert rules.written(value, unit=unit) == words


def test_a_rule_sees_what_is_above_its_threshold_of_its_target() -> None:
    reading = Reading(measures=[Measure(subject="a 1", value=9, target="a"), Measure(subject="b", value=9)])
    assert rules.observe(reading, target="", threshold=8).above == {"a 1": 9, "b": 9}
    assert rules.observe(reading, target="a", threshold=8).above == {"a 1": 9}
    assert rules.observe(reading, target="b", threshold=9).above == {}


def test_a_complete_reading_knows_of_what_it_does_not_name_that_it_is_not_so() -> None:
    measures = [Measure(subject="a", value=1), Measure(subject="b", value=9)]
    whole = rules.observe(Reading(measures=measures), target="", threshold=5)
    part = rules.observe(Reading(measures=measures, is_complete=False), target="", threshold=5)
    assert [whole.is_below(name) for name in "abc"] == [True, False, True]
    assert [part.is_below(name) for name in "abc"] == [True, False, False]


def test_a_rule_within_its_bounds_is_accepted() -> None:
    rules.check(WAIT, VALUES)


@looped(
    ("field", "value"),
    [
        ("name", ""), ("name", " "), ("name", "a\nBcc: b"), ("name", "x" * 101), ("target", "x" * 301),
        ("target", "\x00"), ("threshold", -1), ("threshold", float("nan")), ("threshold", float("inf")),
        ("hold_s", 7 * 86400 + 1), ("keep_firing_s", -1), ("window_s", 60), ("window_s", 86401), ("repeat_s", 60),
        ("mail_to", "nobody"), ("mail_to", "a@b\x01"), ("mail_to", " ".join(f"a{n}@b.c" for n in range(11))),
    ],
)  # fmt: skip
def test_a_rule_out_of_its_bounds_is_refused_with_its_field(field: str, value: Any) -> None:
    with pytest.raises(BadRule) as refusal:
        rules.check(WAIT, VALUES | {field: value})
    assert refusal.value.field == field


def test_a_rule_for_more_than_all_or_for_nothing_known_is_refused() -> None:
    with pytest.raises(BadRule, match="more than all"):
        rules.check(SHARE, VALUES | {"threshold": 100})
    with pytest.raises(BadRule, match="no such condition"):
        rules.check(None, VALUES)


def test_addresses_stand_in_any_order_with_commas_or_space_between_them_and_count_once() -> None:
    assert rules.addresses(" b@example.org,a@example.org\n b@example.org ") == ["b@example.org", "a@example.org"]

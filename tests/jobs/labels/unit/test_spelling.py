"""Numbers in conditions have one spelling, below zero too."""

from jobs.domain import labels
from tests.looped import looped


@looped(
    ("written", "kept"),
    [
        (">=-0.5", ">=-0.5"), ("-0.5", "-0.5"), (-0.5, "-0.5"), ("<=-0.05", "<=-0.05"), ("-0", "0"), ("-0.0", "0"),
        (">=-0.0", ">=0"), ("+0.50", "0.5"), ("-10", "-10"), ("-0.10", "-0.1"), ("16.0", "16"),
    ],
)  # fmt: skip
def test_a_number_below_zero_keeps_its_sign(written: object, kept: str) -> None:
    assert labels.conditions({"temp": written}, field="requires") == {"temp": kept}


def test_and_is_compared_as_such() -> None:
    named = labels.conditions({"temp": ">=-0.5"}, field="requires")
    assert labels.meets(named, {"temp": ("-0.2",)})
    assert not labels.meets(named, {"temp": ("-0.7",)})

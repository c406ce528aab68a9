"""Two texts side by side."""

import pytest
from hypothesis import given, strategies as st

from jobs.domain import outputs
from jobs.domain.outputs import Row, compare

TEXT = st.lists(st.sampled_from("abcdef"), max_size=12).map("\n".join)


def test_a_changed_line_stands_beside_what_it_was() -> None:
    assert compare("a\nb\nc", "a\nx\nc").rows == [
        Row(left="a", right="a", is_same=True),
        Row(left="b", right="x"),
        Row(left="c", right="c", is_same=True),
    ]


def test_a_line_of_one_text_alone_has_nothing_beside_it() -> None:
    assert Row(left=None, right="b") in compare("a", "a\nb").rows
    assert Row(left="b", right=None) in compare("a\nb", "a").rows


def test_equal_texts_have_no_rows() -> None:
    comparison = compare("a\nb", "a\nb")
    assert (comparison.rows, comparison.is_same, comparison.is_cut) == ([], True, False)


def test_equal_lines_far_from_a_difference_are_left_out() -> None:
    same = [f"line {n}" for n in range(50)]
    rows = compare("\n".join(["x", *same, "y"]), "\n".join(["z", *same, "w"])).rows
    assert [row.is_gap for row in rows].count(True) == 1
    assert len(rows) == 2 + 2 * outputs.CONTEXT + 1


@pytest.mark.parametrize("text", ["\n".join(map(str, range(1000))), "x" * 1000])
def test_what_is_too_long_is_cut_and_says_so(text: str) -> None:
    comparison = compare("", text)
    assert comparison.is_cut
    assert len(comparison.rows) <= outputs.MOST_LINES
    assert all(len(row.right or "") <= outputs.LONGEST_LINE for row in comparison.rows)


@given(TEXT, TEXT)
def test_each_side_holds_lines_of_its_text_in_their_order(left: str, right: str) -> None:
    rows = compare(left, right).rows
    for text, side in ((left, [row.left for row in rows]), (right, [row.right for row in rows])):
        lines = iter(text.splitlines())
        assert all(line in lines for line in side if line is not None)

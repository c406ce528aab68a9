"""Output whose lines are for programs, as a text for people."""

from jobs.domain.outputs import texts
from openai_api.domain import output_text
from tests.looped import looped


def read(line: str) -> str:
    return line.upper() + "."


class TestTexts:
    def test_count_a_line_in_the_piece_that_ends_it(self) -> None:
        pieces = [(1, "a\nb"), (1, ""), (1, "c\n"), (1, "d")]
        assert list(texts(pieces, read=read, before=(1, ""))) == ["A.", "", "BC.", ""]

    def test_begin_in_the_piece_before(self) -> None:
        assert list(texts([(1, "b\n")], read=read, before=(1, "x\na"))) == ["AB."]

    def test_of_a_later_claim_begin_anew(self) -> None:
        assert list(texts([(1, "half"), (2, "whole\n")], read=read, before=(1, ""))) == ["", "WHOLE."]
        assert list(texts([(2, "whole\n")], read=read, before=(1, "half"))) == ["WHOLE."]


class TestTheTextOfACall:
    @looped(
        ("line", "text"),
        [
            ('{"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]}', "Hel"),
            ('{"choices": [{"index": 1, "delta": {"content": "other"}}, {"delta": {"content": "lo"}}]}', "lo"),
            ('{"choices": [{"delta": {"reasoning_content": "Hm"}}]}', "Hm"),
            ('{"choices": [{"text": "Once"}]}', "Once"),
            ('{"choices": [{"delta": {"tool_calls": [{"function": {"name": "look", "arguments": "{"}}]}}]}', "look {"),
            ('{"choices": [], "usage": {}}', ""),
            ('{"type": "response.output_text.delta", "delta": "Hel"}', "Hel"),
            ('{"type": "response.output_item.added", "item": {"type": "function_call", "name": "look"}}', "look "),
            ('{"type": "response.completed", "response": {}}', ""),
            ('{"type": "transcript.text.delta", "delta": "Hel"}', "Hel"),
            ("no JSON", ""), ("[7]", ""), ('{"choices": [7], "delta": 7}', ""), ('{"choices": [{"delta": 7}]}', ""),
        ],
        ids=str,
    )  # fmt: skip
    def test_is_what_its_deltas_add(self, line: str, text: str) -> None:
        assert output_text(line) == text

"""A message too large to be read is answered under its `ref`, where that stands at its head."""

import json
from typing import Any

import pytest
from django.conf import settings

from jobs.errors import PayloadTooLarge
from jobs.protocol import messages
from tests.looped import looped

LONG = "x" * settings.JOBFARM["BODY_BYTES"]


@looped(
    ("head", "ref"),
    [
        ('{"type": "finish", "ref": 7, "result": "', 7),
        ('{ "ref" :"a\\"b", "type":"finish","result":"', 'a"b'),
        ('{"lease":"1-\\u0065","job":-12,"ref":null,"result":"', None),
        ('{"result":{"ref":3},"ref":4,"error":"', None),  # behind what may be long
        ('{"ref":1.5,"error":"', None),
        ('["ref", 7, "', None),
    ],
)
def test_is_found_among_plain_values_only(head: str, ref: Any) -> None:
    with pytest.raises(messages.Unreadable) as refused:
        messages.read(head + LONG + '"}')
    assert (type(refused.value.why), refused.value.ref) == (PayloadTooLarge, ref)


def test_is_never_taken_from_within_a_text() -> None:
    text = json.dumps({"error": '","ref":7,"' + LONG, "ref": 8})
    with pytest.raises(messages.Unreadable) as refused:
        messages.read(text)
    assert refused.value.ref is None

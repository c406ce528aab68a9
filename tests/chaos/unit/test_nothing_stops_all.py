"""The table of what serves many in docs/chaos.md names tests that are there."""

import re

from tests.documented import ROOT

_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_each_row_names_a_test_that_is_there() -> None:
    named = _NAMED.findall((ROOT / "docs/chaos.md").read_text())
    assert len(named) > 30
    assert [name for file, name in named if f"def {name}(" not in (ROOT / file).read_text()] == []

"""Numbers of advisory locks: a class of them is of one app alone, or what has nothing to do with each other waits."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
APPS: Final = ("jobs", "ratelimits", "scheduling", "outbox", "webhooks", "metering", "openai_api", "live", "postgres")
CLASS: Final = re.compile(r"\b1_?784_?635_?\d{3}\b")


def test_each_is_of_one_app() -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for app in APPS:
        for path in (path for ending in ("py", "sql") for path in (ROOT / app).rglob(f"*.{ending}")):
            for number in CLASS.findall(path.read_text()):
                owners[number.replace("_", "")].add(app)
    assert len(owners) >= 8
    assert {number: apps for number, apps in owners.items() if len(apps) > 1} == {}

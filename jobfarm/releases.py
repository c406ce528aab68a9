"""Which migrations were released: the schema that somebody may come from, and the tables that somebody may have in use.

`releases.json` has a line for each release, written by `scripts/release-line`. What came after the last of them must be
safe to apply to a farm at work (docs/adr/0034); what is not in any release yet may still be anything.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.db.migrations.graph import MigrationGraph

from examples import config as examples

FILE: Final = Path(__file__).with_name("releases.json")
OURS: Final = frozenset(
    {"accounts", "alerts", "jobs", "metering", "outbox", "ratelimits", "scheduling", "webhooks"}
    | {example.label for example in examples.installed()}
)
Node = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A version, and the newest migration of each of our apps that it has."""

    version: str
    leaves: Mapping[str, str]

    def nodes(self) -> list[Node]:
        """The newest migrations, as Django names them."""
        return sorted(self.leaves.items())


def known(path: Path = FILE) -> list[Release]:
    """All releases, the oldest first. A version that ends in `.dev` was never published: it stands for the schema that
    upgrades are rehearsed from until there is a first release."""
    return [Release(**fields) for fields in json.loads(path.read_text())]


def published(releases: Sequence[Release]) -> list[Release]:
    """Those that somebody may run."""
    return [release for release in releases if not release.version.endswith(".dev")]


def unreleased(graph: MigrationGraph, releases: Sequence[Release]) -> list[Node]:
    """Our migrations that came after the last published release, in the order of the graph; none before the first."""
    if not (public := published(releases)):
        return []
    seen: set[Node] = set()
    for leaf in public[-1].nodes():
        seen.update(graph.forwards_plan(leaf))
    ordered = [node for leaf in graph.leaf_nodes() for node in graph.forwards_plan(leaf)]
    return [node for node in dict.fromkeys(ordered) if node[0] in OURS and node not in seen]


def leaves(graph: MigrationGraph) -> dict[str, str]:
    """The newest migration of each of our apps, as the code is now: what a release writes down."""
    return {app: name for app, name in sorted(graph.leaf_nodes()) if app in OURS}

"""Functions and deliveries, and the processes of clusters and web server that die while they do something about one."""

import json
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from scheduling import operations as scheduling
from scheduling.domain.calls import Kind
from scheduling.models import Cron, Due, ScheduledFunction
from scheduling.operations import clusters
from scheduling.queries import functions
from scheduling.queries.functions import Holder
from tests import farm
from tests.crashes import actions
from tests.crashes.points import Template
from tests.crashes.scenes import Scene, Stage, die_at_every_point
from tests.scheduling.integration import sample
from tests.webhook_samples import sample as payload
from webhooks import operations as webhooks
from webhooks.domain.deliveries import Source
from webhooks.operations import secrets

pytestmark = [pytest.mark.landing, pytest.mark.django_db(transaction=True)]


def dispatched(scene: Scene, kind: Kind) -> list[dict[str, Any]]:
    """Everything due, in the hands of a cluster."""
    scene.cluster_id = uuid.uuid4()
    clusters.begin(scene.cluster_id, role="crash")
    return [asdict(one) for one in clusters.dispatch(kind, limit=10)]


def go_on_with_functions(scene: Scene) -> None:
    """The cluster is given up, and another one runs what is due."""
    if scene.cluster_id is not None:
        clusters.end(scene.cluster_id, ending="died")
    ScheduledFunction.objects.filter(status="pending").update(run_at=farm.now())
    Due.objects.update(next_at=farm.now())
    while scheduling.run_due():
        pass


class TestAFunction:
    """What the processes of a cluster do."""

    def test_that_is_a_mutation_happens_once_with_its_success(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            for name in "abc":
                scheduling.run_after(0, sample.make_group, name=name)
            found = dispatched(scene, Kind.MUTATION)
            scene.given = {"cluster_id": str(scene.cluster_id), "dispatched": found}

        end: Stage = {"functions": [("success", 1)] * 3, "groups": 3}

        def stage(done: int) -> Stage:
            states = [("success", 1)] * done + [("pending", 1)] * (3 - done)
            counted = {"functions": states, "groups": done, "queued": 3 - done}
            return {what: value for what, value in counted.items() if value}

        die_at_every_point(
            forks, "run_mutations", prepare=prepare, go_on=go_on_with_functions, lines=tmp_path / "lines",
            stages=[(stage(done), end) for done in range(4)],
        )  # fmt: skip

    def test_that_is_an_action_is_never_started_twice(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            scheduling.run_after(0, sample.append, path=str(scene.lines), line="once")
            [found] = dispatched(scene, Kind.ACTION)
            scene.given = {"cluster_id": str(scene.cluster_id), "dispatched": found}

        done: Stage = {"functions": [("success", 1)], "lines": 1}
        started: Stage = {"functions": [("in_progress", 1)]}
        unknown: Stage = {"functions": [("unknown", 1)]}
        stages: list[tuple[Stage, Stage]] = [
            ({"functions": [("pending", 1)], "queued": 1}, done),
            (started, unknown),
            ({**started, "lines": 1}, {**unknown, "lines": 1}),
            (done, done),
        ]
        die_at_every_point(
            forks, "run_action", prepare=prepare, go_on=go_on_with_functions, lines=tmp_path / "lines", stages=stages
        )

    def test_that_fails_is_tried_again_exactly_if_that_is_known(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            scheduling.run_after(0, sample.break_down_and_be_tried_again, word="no")
            [found] = dispatched(scene, Kind.ACTION)
            scene.given = {"cluster_id": str(scene.cluster_id), "dispatched": found}

        thrice: Stage = {"functions": [("failed", 1), ("failed", 2), ("failed", 3)]}
        stages: list[tuple[Stage, Stage]] = [
            ({"functions": [("pending", 1)], "queued": 1}, thrice),
            ({"functions": [("in_progress", 1)]}, {"functions": [("unknown", 1)]}),
            ({"functions": [("failed", 1), ("pending", 2)], "queued": 1}, thrice),
        ]
        die_at_every_point(
            forks, "run_action", prepare=prepare, go_on=go_on_with_functions, lines=tmp_path / "lines", stages=stages
        )

    def test_of_a_dead_cluster_is_inherited_also_by_the_third(self, forks: Template, tmp_path: Path) -> None:
        """Who buries a cluster dies too: others find what it left behind."""

        def prepare(scene: Scene) -> None:
            scheduling.run_after(0, sample.append, path=str(scene.lines), line="never")
            [found] = dispatched(scene, Kind.ACTION)
            by = Holder(cluster_id=uuid.UUID(str(scene.cluster_id)), ran_by="crash")
            assert functions.start(found["id"], by=by) is not None
            scheduling.run_after(0, sample.append, path=str(scene.lines), line="once")
            scene.given = {"cluster_id": str(scene.cluster_id)}

        end: Stage = {"functions": [("unknown", 1), ("success", 1)], "lines": 1}
        left = [("in_progress", 1), ("pending", 1)]
        stages: list[tuple[Stage, Stage]] = [
            ({"functions": left, "queued": 1}, end),
            ({"functions": [("unknown", 1), ("pending", 1)], "queued": 1}, end),
        ]
        die_at_every_point(
            forks, "tombstone", prepare=prepare, go_on=go_on_with_functions, lines=tmp_path / "lines", stages=stages
        )

    def test_of_a_cron_is_there_when_the_cron_has_moved_on(self, forks: Template, tmp_path: Path) -> None:
        def prepare(_: Scene) -> None:
            Cron.objects.create(
                name="daily",
                source="person",
                function=f"{sample.__name__}.nothing",
                schedule=scheduling.interval(seconds=86_400).text(),
                missed="once",
                overlap="skip",
                next_at=farm.now(),
            )

        def go_on(scene: Scene) -> None:
            scheduling.fire_due()
            go_on_with_functions(scene)

        end: Stage = {"functions": [("success", 1)], "fired": 1}
        die_at_every_point(
            forks, "fire", prepare=prepare, go_on=go_on, lines=tmp_path / "lines",
            stages=[({}, end), ({"functions": [("pending", 1)], "queued": 1, "fired": 1}, end)],
        )  # fmt: skip


KEPT: Stage = {"functions": [("pending", 1)], "queued": 1, "deliveries": [("received", 0)]}
PROCESSED: Stage = {"functions": [("success", 1)], "deliveries": [("processed", 1)], "tries": 1, "activity": 1}


class TestADelivery:
    """What the web server does with a request, and a cluster with what was stored."""

    def test_is_stored_with_its_processing_or_sent_again(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            _, secret = webhooks.secrets.add(Source.GITHUB)
            scene.given = signed(secret)

        def go_on(scene: Scene) -> None:
            """The sender had no answer: it sends the same again."""
            actions.receive(**scene.given)
            go_on_with_functions(scene)

        die_at_every_point(
            forks, "receive", prepare=prepare, go_on=go_on, lines=tmp_path / "lines",
            stages=[({}, PROCESSED), (KEPT, PROCESSED)],
        )  # fmt: skip

    def test_is_processed_once(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            _, secret = webhooks.secrets.add(Source.GITHUB)
            actions.receive(**signed(secret))
            found = dispatched(scene, Kind.MUTATION)
            scene.given = {"cluster_id": str(scene.cluster_id), "dispatched": found}

        die_at_every_point(
            forks, "run_mutations", prepare=prepare, go_on=go_on_with_functions, lines=tmp_path / "lines",
            stages=[(KEPT, PROCESSED), (PROCESSED, PROCESSED)],
        )  # fmt: skip


def signed(secret: str) -> dict[str, Any]:
    """A request as GitHub sends it: the arguments of `receive`."""
    body = payload("github/issues.opened.1.json").document()
    headers = secrets.signed_headers(
        Source.GITHUB,
        json.dumps(body).encode(),
        secret=secret,
        event_type="issues.opened",
        delivery_id="one",
        now=farm.now(),
    )
    return {"body": body, "headers": {name.lower(): value for name, value in headers.items()}}

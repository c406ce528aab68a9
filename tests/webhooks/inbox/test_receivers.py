"""Receivers of other apps: beside the farm's handler, in its transaction, under its rules."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group

from scheduling import operations as scheduling
from tests.webhooks.inbox.support import receive
from webhooks.handlers import registry
from webhooks.models import Delivery
from webhooks.operations import Event, receives

pytestmark = pytest.mark.usefixtures("transactional_db")
Register = Callable[[str, str, Any], None]


@pytest.fixture(autouse=True)
def _no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of the test."""
    monkeypatch.setattr(registry, "_receivers", {})


def _processed(**options: Any) -> Delivery:
    delivery = receive(**options)
    scheduling.run_due()
    delivery.refresh_from_db()
    return delivery


class TestAReceiver:
    def test_takes_in_what_nothing_of_the_farm_handles(self) -> None:
        events: list[Event] = []
        receives("github", "probe")(events.append)
        assert _processed().status == "processed"
        assert [event.delivery_id for event in events] == ["d-1"]

    def test_is_called_after_the_farms_handler_and_by_the_family_of_types_too(self, handle: Register) -> None:
        order: list[str] = []
        handle("github", "probe.made", lambda _: order.append("the farm"))
        receives("github", "probe.made")(lambda _: order.append("exact"))
        receives("github", "probe.*")(lambda _: order.append("family"))
        receives("stripe", "probe.made")(lambda _: order.append("another source"))
        _processed(event_type="probe.made")
        assert order == ["the farm", "exact", "family"]

    def test_leaves_an_event_ignored_that_nobody_took_in(self, handle: Register) -> None:
        handle("github", "probe", lambda _: "not shown")
        receives("github", "probe")(lambda _: "not ours")
        delivery = _processed()
        assert (delivery.status, delivery.note) == ("ignored", "not shown")

    def test_makes_an_ignored_event_processed(self, handle: Register) -> None:
        handle("github", "probe", lambda _: "not shown")
        receives("github", "probe")(lambda _: None)
        delivery = _processed()
        assert (delivery.status, delivery.note) == ("processed", None)

    def test_that_raises_fails_the_attempt_and_takes_back_what_the_handler_wrote(self, handle: Register) -> None:
        def write(_: Event) -> None:
            Group.objects.create(name="by the farm")

        def break_down(_: Event) -> None:
            raise ValueError("ours is broken")

        handle("github", "probe", write)
        receives("github", "probe")(break_down)
        delivery = _processed()
        assert (delivery.status, delivery.note) == ("failed", "ValueError: ours is broken")
        assert not Group.objects.exists()

    def test_of_a_source_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(ValueError, match="gihub"):
            receives("gihub", "push")(lambda _: None)

"""The menu of the administration: django-q2's pages are in it once somebody uses django-q2 past the scheduler."""

from collections.abc import Callable

import pytest
from django.urls import reverse
from django.utils import timezone
from django_q.models import Failure, Schedule, Success
from django_q.tasks import async_task

from tests.admin.conftest import As

PAGES = [reverse(f"admin:django_q_{name}_changelist") for name in ("schedule", "success", "failure")]


def ended(*, success: bool) -> None:
    kind = Success if success else Failure
    kind.objects.create(
        id="1", name="one", func="operator.add", started=timezone.now(), stopped=timezone.now(), success=success
    )


def menu(as_: As, role: str) -> list[str]:
    page = as_(role).get(reverse("admin:index")).content.decode()
    assert reverse("admin:scheduling_cron_changelist") in page
    return [url for url in PAGES if f'href="{url}"' in page]


class TestDjangoQ2:
    @pytest.mark.parametrize("role", ["root", "readers"])
    def test_is_not_in_the_menu_of_a_farm_that_does_not_use_it(self, as_: As, role: str) -> None:
        assert menu(as_, role) == []

    @pytest.mark.parametrize(
        "use",
        [
            pytest.param(lambda: async_task("operator.add", 1, 2), id="a task waits"),
            pytest.param(lambda: Schedule.objects.create(func="operator.add"), id="a schedule"),
            pytest.param(lambda: ended(success=True), id="a task that is done"),
            pytest.param(lambda: ended(success=False), id="a task that failed"),
        ],
    )
    def test_is_in_the_menu_of_one_that_does(self, as_: As, use: Callable[[], object]) -> None:
        use()
        assert menu(as_, "readers") == PAGES

    def test_has_pages_whose_tables_are_empty(self, as_: As) -> None:
        """A bookmark of them goes on working."""
        assert [as_("root").get(url).status_code for url in PAGES] == [200, 200, 200]

"""What new code has scheduled and a cluster of the version before is given, and the other way round."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group

from postgres import clock
from scheduling import operations as scheduling
from scheduling.domain.calls import Kind
from scheduling.models import Due, ScheduledFunction
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)


def stored(row: ScheduledFunction) -> ScheduledFunction:
    return ScheduledFunction.objects.get(pk=row.pk)


@pytest.mark.parametrize("changes", [{"function": "shop.tasks.gone"}, {"args": {"name": "x", "word": "x", "by": 1}}])
@pytest.mark.parametrize("function", [sample.say, sample.make_group])
class TestAFunctionOfAnotherVersion:
    @pytest.fixture
    def row(self, function: Any, changes: dict[str, Any]) -> ScheduledFunction:
        args = {"word": "x"} if function is sample.say else {"name": "x"}
        made: ScheduledFunction = scheduling.run_after(0, function, **args)
        ScheduledFunction.objects.filter(pk=made.pk).update(**changes)
        return made

    def test_waits_untouched_for_a_cluster_that_has_it(self, row: ScheduledFunction) -> None:
        assert [scheduling.run_due(), scheduling.run_due(), stored(row).status] == [0, 0, "pending"]
        assert Due.objects.get().next_at > clock.now()
        ScheduledFunction.objects.update(function=row.function, args=row.args)
        Due.objects.update(next_at=clock.now())
        assert [scheduling.run_due(), stored(row).status] == [1, "success"]

    def test_is_looked_at_the_less_often_the_longer_it_has_waited(self, row: ScheduledFunction) -> None:
        for minutes, least_s in ((0, 9), (4, 115), (40, 295)):
            Due.objects.update(run_at=clock.now() - timedelta(minutes=minutes), next_at=clock.now())
            assert scheduling.run_due() == 0
            waits_s = (Due.objects.get().next_at - clock.now()).total_seconds()
            assert least_s < waits_s <= 300, minutes

    def test_fails_when_none_has_come_within_an_hour(self, row: ScheduledFunction, changes: dict[str, Any]) -> None:
        Due.objects.update(run_at=clock.now() - timedelta(hours=2))
        scheduling.run_due()
        error = "scheduling.errors.UnknownFunction" if "function" in changes else "builtins.TypeError"
        assert (stored(row).status, stored(row).error_class) == ("failed", error)


class TestAFunctionThatIsOfTheOtherKindNow:
    """Or whose cron was fired by a cluster that does not know it: as an action."""

    def test_is_a_transaction_of_an_action(self) -> None:
        row = scheduling.run_after(0, sample.say, word="x")
        ScheduledFunction.objects.update(function=f"{sample.__name__}.make_group", args={"name": "x"})
        assert (scheduling.run_due(), stored(row).status, stored(row).error) == (1, "success", None)
        assert Group.objects.get().name == "x"

    def test_is_scheduled_as_an_action_by_the_mutation_that_it_was(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="x")
        ScheduledFunction.objects.update(function=f"{sample.__name__}.say", args={"word": "x"})
        assert (scheduling.run_due(kinds=[Kind.MUTATION]), stored(row).status) == (1, "success")
        child = ScheduledFunction.objects.get(parent=row)
        assert (child.kind, child.status, scheduling.run_due(), stored(child).result) == ("action", "pending", 1, "x")

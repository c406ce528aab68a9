"""One description of each filter gives the form, the live query's arguments, the API's parameters, the conditions."""

import html
import json
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs.domain.filters import DESCRIBED, Filters
from jobs.live_queries import lists as live_queries
from jobs.models import Job
from jobs.protocol import clients
from jobs.queries import lists
from jobs.views.lists import FilterForm
from tests import farm
from tests.looped import looped

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("work_kind")]
VALUES = {
    "status": "success", "kind": "no-such-kind", "queue": "no-such-queue", "owner": "nobody", "group": "no group",
    "worker": "no worker", "since": "2199-01-01T00:00", "until": "2001-01-01T00:00", "text": "no such text",
    "ids": "9000001,9000002", "due": "later", "tag": "no-such-tag", "flow": "9000001",
}  # fmt: skip


class TestEachFilter:
    def test_is_a_field_of_the_form(self, ada: User) -> None:
        assert set(FilterForm({}, user=ada).fields) == {*DESCRIBED, "before", "sort"}

    def test_is_an_argument_of_the_live_query(self) -> None:
        assert set(live_queries.jobs.parameters) == {*DESCRIBED, "whose", "before", "sort"}

    def test_is_given_to_the_live_query_by_the_page(self, ada: User, client: Client) -> None:
        client.force_login(ada)
        page = client.get("/jobs/?text=heron").content.decode()
        [arguments] = [
            json.loads(html.unescape(each))
            for each in re.findall(r'data-live="jobs"[^>]* data-live-args="([^"]*)"', page)
        ]
        assert set(arguments) == set(live_queries.jobs.parameters)
        assert arguments["text"] == "heron"

    def test_that_callers_may_use_is_a_parameter_of_the_api(self) -> None:
        explained = {name for name, described in DESCRIBED.items() if described.about}
        assert set(clients.Filters.model_fields) == {*explained, "retry_of", "cursor", "limit"}

    @looped("name", sorted(VALUES), rolled_back=True)
    def test_is_a_condition(self, name: str, ada: User) -> None:
        farm.submit(1, owner=ada)
        where = lists.narrowed(Filters(**{name: VALUES[name]}))
        assert (Job.objects.count(), Job.objects.filter(where).count()) == (1, 0)

    def test_has_a_value_here_or_is_made_a_moment(self) -> None:
        assert set(VALUES) == set(DESCRIBED) - {"age"}

"""A page of which one part fails."""

import pytest
from django.contrib.auth.models import Group

from postgres import connections
from tests.live.edges.page import Page

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_query_whose_topics_fail_is_refused_and_the_page_goes_on(pages: type[Page]) -> None:
    group = await connections.run(Group.objects.create, name="open")
    page = await pages.open()
    await page.watches("test-lost")
    assert (await page.hears())["error"] == "query_failed"
    await page.watches("test-group", "b", group_id=group.pk)
    assert (await page.hears())["state"] == "b"

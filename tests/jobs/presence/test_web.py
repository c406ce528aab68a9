"""A web process that freezes is named by the others within half a minute, wherever one looks.

What is shown of a silent one, by its row: tests/pages/edges/test_presence.py. That a frozen one says nothing:
test_reachability.py.
"""

import time

import pytest
from django.contrib.auth.models import User

from tests import farm
from tests.jobs.presence import running
from tests.servers import serve

pytestmark = [pytest.mark.landing, pytest.mark.django_db(transaction=True)]


class TestAFrozenWebProcess:
    def test_is_told_everywhere_until_it_goes_on(self) -> None:
        cookies = running.session_of(User.objects.create_superuser("root"))
        with serve() as server, serve() as other, running.open_page(server, cookies) as page:
            assert running.ready(server, "web") == {"status": "ok"}
            named = f"pid {other.pid}"
            with running.frozen(other.pid):
                since = time.monotonic()
                assert running.shows(page, named)  # awaited there: nobody asks again and again
                farm.until(
                    lambda: (
                        running.ready(server, "web")["status"] == "warning"
                        and named in running.doctor()
                        and any(named in finding for finding in running.overview(server, cookies))
                    ),
                    within_s=running.REPORTED_WITHIN_S + 20,
                    what="the finding",
                )
                assert time.monotonic() - since < running.REPORTED_WITHIN_S
            farm.until(
                lambda: (
                    running.ready(server, "web") == {"status": "ok"}
                    and named not in running.doctor()
                    and not any(named in finding for finding in running.overview(server, cookies))
                ),
                what="the end of the finding",
            )

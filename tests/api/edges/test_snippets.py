"""What a job's page prints submits the same job: run by a shell and by Python, against a farm."""

import html
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job
from tests import farm
from tests.servers import Server

NASTY: Any = {
    "prompt": 'it\'s "quoted" $HOME `id` \\ ünïcode\nline two',
    "deep": [{"n": 1.5, "none": None, "yes": True}],
    "</pre>": "<script>alert(1)</script>",
}


def _snippet(page: str, name: str) -> str:
    [text] = re.findall(rf'<pre class="code" id="{name}"[^>]*>(.*?)</pre>', page, re.DOTALL)
    return html.unescape(text)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["as-curl", "as-python"])
def test_what_is_printed_submits_the_same_job(server: Server, name: str) -> None:
    operations.sync()
    ada = farm.user("ada", groups=[Group.objects.create(name="studio")])
    _, token = accounts.create_token(ada, name="mine")
    group = ada.groups.get()
    job = operations.submit("chat", NASTY, owner=ada, group=group)
    client = Client(HTTP_HOST=server.url.removeprefix("http://"))
    client.force_login(ada)
    text = _snippet(client.get(f"/jobs/{job.pk}/").content.decode(), name)
    command = ["sh", "-c", text] if name == "as-curl" else [sys.executable, "-c", text]
    environment = {**os.environ, "JOBFARM_TOKEN": token}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=30)
    again = Job.objects.whole().exclude(pk=job.pk).get()
    assert (again.kind, again.payload, again.queue, again.group) == ("chat", NASTY, job.queue, group)
    assert again.priority == job.priority

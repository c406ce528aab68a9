"""The commands that docs/ prints for curl, `jobfarm` and workers, run as printed at a real server."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile

from accounts import operations as accounts
from jobs import operations
from jobs.models import Checkpoint, Input, Job, OutputChunk, ResultFile, Suspension, WorkerFacts
from tests import documented, farm
from tests.api.edges.callers import Crew
from tests.servers import Server
from tests.shells import Shell

pytestmark = pytest.mark.landing

FARM = "https://farm.example"
PARAGRAPHS = ("One", "Two", "Three", "Four", "Five")


@pytest.fixture
def shell(server: Server, ada: User, tmp_path: Path) -> Shell:
    """A terminal of ada's, in which the tour of the pages has named the farm and her token."""
    token = accounts.create_token(ada, name="curl")[1]
    return Shell(tmp_path, checkout=True, FARM=server.url, TOKEN=token, JOBFARM_URL=server.url, JOBFARM_TOKEN=token)


def answers(output: str) -> list[Any]:
    """The documents of JSON that stand one behind the other in this text."""
    documents, rest = [], output.strip()
    while rest:
        document, end = json.JSONDecoder().raw_decode(rest)
        documents.append(document)
        rest = rest[end:].lstrip()
    return documents


class TestApi:
    def test_a_worker_in_curl(self, server: Server, crew: Crew, shell: Shell, tmp_path: Path) -> None:
        (tmp_path / "picture.png").write_bytes(b"a picture")
        first, then = farm.submit(2, "chat")
        claimed = crew.claim_one(request_id="claim-1")  # the page's own claim is a repeat of this one
        commands = documented.block("api.md", "export FARM=")
        output = shell.follow(commands, {
            "http://127.0.0.1:8000": server.url, "jfw_...": crew.key,
            "JOB=7 LEASE=1-...": f"JOB={claimed['id']} LEASE={claimed['lease']}",
        })  # fmt: skip
        again, *_, finished = answers(output)
        assert (again["jobs"][0]["id"], finished["status"]) == (first.pk, "success")
        assert [job["id"] for job in finished["jobs"]] == [then.pk]
        assert ResultFile.objects.get().job_id == first.pk

    def test_a_client_in_curl(self, shell: Shell, ada: User) -> None:
        job = operations.submit("chat", {"prompt": "Why?"}, owner=ada)
        operations.cancel(job.pk, by=ada)
        commands = documented.block("api.md", "export TOKEN=")
        output = shell.follow(commands, {"jft_...": shell.environment["TOKEN"], "/7/": f"/{job.pk}/"})
        [job_id] = Job.objects.exclude(pk=job.pk).values_list("pk", flat=True)
        assert json.JSONDecoder().raw_decode(output)[0]["id"] == job_id
        assert re.findall(r"^event: (\w+)$", output, re.MULTILINE)[-1] == "end"
        assert '"verdict": "too_late"' in output

    def test_a_unique_key(self, shell: Shell) -> None:
        commands = next(text for text in documented.blocks("api.md", "sh") if "unique_key" in text)
        shell.follow(commands, {})
        assert answers(shell.follow(commands, {}))[0]["error"] == "not_unique"

    def test_input_files(self, shell: Shell, tmp_path: Path) -> None:
        farm.kind("transcribe")
        (tmp_path / "sound.ogg").write_bytes(b"OggS")
        upload, submit = re.split(r"\n(?=curl )", documented.block("api.md", 'curl -sS -X POST "$FARM/api/v1/files'))
        [kept] = answers(shell.follow(upload, {}))
        shell.follow(submit, {"0b6f...": kept["id"]})
        assert Input.objects.get(job__kind="transcribe").name == "audio"

    def test_endpoints_of_the_outbox(self, shell: Shell) -> None:
        make, look, replay = re.split(
            r"\n(?=curl )", documented.block("api.md", "curl -sS $FARM/api/v1/outbox/endpoints")
        )
        [made] = answers(shell.follow(make, {"https://hooks.example": "https://192.0.2.1"}))
        assert made["secret"].startswith("whsec_")
        number = {"endpoint=3": f"endpoint={made['id']}"}
        assert answers(shell.follow(look, number))[0]["messages"] == []
        [counted] = answers(shell.follow(replay, {'"endpoint": 3': f'"endpoint": {made["id"]}'}))
        assert (counted["id"], counted["matched"]) == (None, 0)


def test_labels(shell: Shell) -> None:
    start, submit = documented.blocks("labels.md", "sh")
    output = shell.follow(submit, {})
    assert answers(output.partition("\n")[0])[0]["status"] == "pending"
    assert [job.requirement.requires for job in Job.objects.order_by("pk")] == [{"vram": ">=16"}] * 2
    _, key = operations.create_worker("image", queues=["image"])
    shell.environment["JOBFARM_KEY"] = key
    with shell.running(start.replace(FARM, shell.environment["FARM"]).strip()):
        farm.until(lambda: announced("labels") == {"vram": "24", "region": "home"})


def test_a_worker_of_two_kinds(shell: Shell) -> None:
    create, start = (
        documented.block("worker.md", ".venv/bin/python"),
        documented.block("worker.md", "JOBFARM_KEY=..."),
    )
    key = shell.follow(create, {}).splitlines()[-1]
    with shell.running(start.replace("...", key).replace(FARM, shell.environment["FARM"]).strip()):
        farm.until(lambda: set(announced("handlers") or ()) == {"chat", "image"})


def test_a_document_in_three_languages(shell: Shell, ada: User) -> None:
    serve, start, approve = documented.blocks("examples.md", "sh")
    make, serve = serve.strip().split("\n", 1)
    key = shell.follow(f"{make}\necho $KEY", {}).splitlines()[-1]
    with shell.running(serve.replace("$KEY", key).replace(FARM, shell.environment["FARM"])):
        [flow] = answers(shell.follow(start, {}))
        *_, approval, join = flow["jobs"]
        assert (len(flow["jobs"]), len(approval["after"]), join["after"]) == (15, 12, [approval["id"]])
        farm.until(lambda: waits(approval["id"]))
        shown = "".join(OutputChunk.objects.filter(job=approval["id"]).values_list("text", flat=True))
        french = "\n\n".join(f"[fr] {one}." for one in PARAGRAPHS)
        assert (french in shown, farm.status(join["id"])) == (True, "pending")
        assert answers(shell.follow(approve, {"APPROVE": str(approval["id"])}))
        farm.until(lambda: farm.status(join["id"]) == "success")
        assert result(join["id"])["documents"]["fr"] == french
        translated = next(one["id"] for one in flow["jobs"] if one["name"] == "es 2")
        *_, approval_again, join_again = sorted(operations.flows.retry(flow["id"], by=ada, from_job=translated))
        farm.until(lambda: waits(approval_again))
        operations.signal(approval_again, "approved", {"verdict": "drop them"}, by=ada)
        farm.until(lambda: not Job.objects.living().exists())
    assert result(join_again) == {"documents": {}, "verdict": "drop them"}
    assert set(farm.statuses()) == {"success"}


def waits(job_id: int) -> bool:
    return Suspension.objects.filter(job=job_id, taken=None).exclude(signal="").exists()


def result(job_id: int) -> Any:
    [job] = Job.objects.whole().filter(pk=job_id)
    return job.result


def test_a_workers_key_and_the_doctor_of_the_first_day(shell: Shell) -> None:
    create, ask = (
        documented.block("first-day.md", "runuser -u jobfarm -- .venv/bin/python manage.py create_worker"),
        documented.block("first-day.md", "runuser -u jobfarm -- .venv/bin/python manage.py doctor"),
    )
    here = {"runuser -u jobfarm -- ": ""}
    assert shell.follow(create, here).splitlines()[-1].startswith("jfw_")
    assert shell.follow(f"{ask.strip()} || true", here)


def test_a_worker_with_models(shell: Shell) -> None:
    create, start = documented.block("front-door.md", ".venv/bin/python manage.py create_worker").splitlines()
    key = shell.follow(create, {}).splitlines()[-1]
    with shell.running(start.replace("...", key).replace(FARM, shell.environment["FARM"])):
        farm.until(lambda: announced("handlers") == ["openai"])


def test_handlers(shell: Shell, tmp_path: Path) -> None:
    program = documented.block("worker.md", "from jobfarm_worker import Failed, Worker")
    (tmp_path / "presupposed.py").write_text(PRESUPPOSED)
    for name in ("transcribe", "greet"):
        farm.kind(name)
    upload = operations.upload("sound.ogg", ContentFile(b"OggS"), owner=User.objects.get())
    jobs = [
        operations.submit("transcribe", {"model": "small"}, owner=User.objects.get(), files={"audio": upload.pk}),
        operations.submit("greet", {"name": "Ada"}),
    ]
    _, shell.environment["KEY"] = operations.create_worker("w", queues=["transcribe", "greet"])
    (tmp_path / "program.py").write_text(
        f"from presupposed import *\n{program.replace(FARM, shell.environment['FARM'])}"
    )
    with shell.running("python program.py"):
        farm.until(lambda: {farm.status(job) for job in jobs} == {"success"})
    assert (tmp_path / "sound.ogg").read_bytes() == b"OggS"


def test_a_handler_that_goes_on_where_it_was(shell: Shell, tmp_path: Path) -> None:
    program = documented.block("worker.md", "import time\n\nfrom jobfarm_worker")
    farm.kind("count")
    job = operations.submit("count", {"pages": 20, "pace_s": 0.1})
    _, shell.environment["KEY"] = operations.create_worker("w", queues=["count"])
    (tmp_path / "program.py").write_text(
        f"import os\nkey = os.environ['KEY']\n{program.replace(FARM, shell.environment['FARM'])}"
    )
    with shell.running("python program.py"):
        farm.until(lambda: Checkpoint.objects.filter(value__pages__gt=2))
    assert (farm.status(job), Job.objects.get().failures) == ("pending", 0)
    with shell.running("python program.py"):
        farm.until(lambda: farm.status(job) == "success")
    [ended] = Job.objects.whole()
    assert (ended.result, ended.fence) == ({"pages": 20, "words": 5000}, 2)


PRESUPPOSED = """
import os
from pathlib import Path
from types import SimpleNamespace

key, folder = os.environ["KEY"], Path()


class Model:
    words = 2

    def __len__(self):
        return 2

    def pieces(self, sound):
        return [SimpleNamespace(text="one "), SimpleNamespace(text="two")]

    def subtitles(self):
        return b"one two"


def load(name):
    return Model()
"""


def announced(what: str) -> Any:
    """What the one worker has said of itself; None before."""
    return WorkerFacts.objects.values_list(what, flat=True).first()

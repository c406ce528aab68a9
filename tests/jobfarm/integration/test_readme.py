"""README, and the page about OpenAI's API, as a stranger follows them: each command, in its order, on a new farm."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import documented
from tests.jobfarm.integration.test_farm_command import PATIENCE_S, ROOT, Farm, one_farm
from tests.looped import looped

README = (ROOT / "README.md").read_text()
START, TOUR = documented.blocks("README.md", "sh")
WORKER, OPENAI = documented.blocks("README.md", "python")
[FILE] = re.findall(r"Save this as `([\w.]+)`", README)
FRONT_DOOR = documented.block("front-door.md", "farm=")
BATCH = documented.block("front-door.md", "import json\nimport time")
PRIMES_BELOW_5000 = 669
WORDS_OF_THE_QUESTION = 4
NOTICE = "(demonstrator: no language model is configured)"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str, str]:
    """What the second terminal shows of the tour, of OpenAI's client, of the page about its API, and of its batch."""
    with one_farm(tmp_path_factory.mktemp("data")) as farm:
        farm.start("--with-worker")
        folder = _folder(tmp_path_factory.mktemp("clone"))
        page = _run(farm, folder, FRONT_DOOR)
        tour = _followed(farm, folder)
        token = _run(farm, folder, ".venv/bin/python manage.py create_token admin | tail -n 1").strip()
        answers, batch = (_python(farm, folder, program, token) for program in (OPENAI, BATCH))
        shown = tour, answers, page, batch
        assert farm.signal(signal.SIGTERM) == 0
        assert farm.left_running() == []
        assert not (farm.data / "farm.json").exists()
        return shown


@pytest.fixture(scope="module")
def printed(shown: tuple[str, str, str, str]) -> str:
    """What the tour shows."""
    return shown[0]


@pytest.mark.landing
class TestOpenAIsApi:
    def test_streams_an_answer_in_the_lines_of_readme(self, shown: tuple[str, str, str, str]) -> None:
        assert shown[1].startswith(NOTICE)
        assert "lighthouses" in shown[1]

    def test_answers_as_its_page_says(self, shown: tuple[str, str, str, str]) -> None:
        streamed, _, rest = shown[2].strip().partition("data: [DONE]")
        chat, picture, response = rest.partition(" characters of a picture\n")
        models, answer = streamed.partition("\n")[0], chat.strip().rpartition("\n")[0]
        assert [model["id"] for model in json.loads(models)["data"]] == ["demonstrator"]
        text, _, tokens = answer.rpartition(" ")
        assert text.startswith(NOTICE)
        assert int(tokens) == len(text.split()) + WORDS_OF_THE_QUESTION
        assert picture
        resumed, _, more = response.strip().rpartition("\n")
        assert resumed.startswith(NOTICE)
        assert more == "completed 3 items before it"

    def test_carries_out_a_batch_as_its_page_says(self, shown: tuple[str, str, str, str]) -> None:
        lines = shown[3].strip().splitlines()
        assert [line.split()[0] for line in lines if line.startswith("question-")] == ["question-0", "question-1"]
        assert shown[3].count(NOTICE) == 2


class TestReadme:
    def test_starts_what_make_starts(self) -> None:
        makefile = (ROOT / "Makefile").read_text()
        assert re.findall(r"^make (\w+)", START, re.MULTILINE) == ["run", "test"]
        assert re.search(r"^run:.*\n\t@exec \$\(PY\) manage.py farm --with-worker$", makefile, re.MULTILINE)

    @pytest.mark.landing
    def test_has_a_worker_that_runs_as_printed_and_is_watched(self, printed: str) -> None:
        events = re.findall(r"^event: (\w+)$", printed, re.MULTILINE)
        assert {"job", "output"} <= set(events)
        assert events[-1] == "end"

    @pytest.mark.landing
    def test_shows_the_result_the_reason_and_the_truth_about_the_cancel(self, printed: str) -> None:
        job, why, canceled = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
        assert (job["status"], job["result"]) == ("success", {"primes": PRIMES_BELOW_5000})
        assert why["reasons"][0]["code"] == "not_due"
        assert canceled["verdict"] == "canceled_before_start"

    @looped("link", sorted(set(re.findall(r"\]\((?!http)([^)#]+)", README))))
    def test_links_to_what_there_is(self, link: str) -> None:
        assert (ROOT / link).exists()


def _folder(folder: Path) -> Path:
    """What a clone has. The file that the reader saves goes there too."""
    for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
        top = folder / name.partition("/")[0]
        if not top.exists():
            top.symlink_to(ROOT / top.name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def _followed(farm: Farm, folder: Path) -> str:
    (folder / FILE).write_text(WORKER.replace("http://127.0.0.1:8000", farm.url))
    return _run(farm, folder, TOUR)


def _python(farm: Farm, folder: Path, program: str, token: str) -> str:
    """What this program of OpenAI's client prints, with this token and the address of this farm."""
    (folder / "stream.py").write_text(program.replace("jft_...", token).replace("http://127.0.0.1:8000", farm.url))
    return _run(farm, folder, ".venv/bin/python stream.py")


def _run(farm: Farm, folder: Path, commands: str) -> str:
    """What these commands print, on this farm."""
    commands = "set -euo pipefail\n" + commands.replace("http://127.0.0.1:8000", farm.url)
    done = subprocess.run(
        ["bash", "-c", commands], cwd=folder, env=farm.environment | {"PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

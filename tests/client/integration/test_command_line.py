"""`jobfarm submit|watch|tail|cancel` as processes, with a real farm behind them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobfarm import __main__ as console
from jobfarm_client import command_line
from jobs.models import Bulk, Edge, Job
from scheduling import operations as scheduling
from tests.api.edges.callers import Crew
from tests.client.integration.test_calls import begun, finish
from tests.farm import status, statuses, until
from tests.forkserver import ROOT
from tests.servers import Server

_NO_DJANGO = """
import sys
from jobfarm.__main__ import main
try:
    main()
finally:
    assert "django" not in sys.modules
"""


class Terminal:
    """Where commands are typed."""

    def __init__(self, server: Server, token: str) -> None:
        self._environment = {**os.environ, "JOBFARM_URL": server.url, "JOBFARM_TOKEN": token}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str, **environment: str) -> "subprocess.Popen[str]":
        """Begin a command."""
        process = subprocess.Popen(
            [sys.executable, "-c", _NO_DJANGO, *words], cwd=ROOT, env={**self._environment, **environment}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *words: str, typed: str = "", **environment: str) -> tuple[int, str, str]:
        """Run a command to its end: its status, what it prints, and what it complains of."""
        process = self.start(*words, **environment)
        output, errors = process.communicate(typed, timeout=60)
        return process.returncode, output, errors


@pytest.fixture
def terminal(server: Server, token: str) -> Iterator[Terminal]:
    terminal = Terminal(server, token)
    yield terminal
    for process in terminal.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_the_console_script_knows_its_verbs() -> None:
    assert console._OF_CLIENTS == command_line.VERBS


def test_a_submit_replaces_the_one_that_waits(terminal: Terminal) -> None:
    ids = [
        terminal.run("submit", "work", number, "--unique-key", "k", *options)[1]
        for number, options in (("1", []), ("2", ["--on-conflict", "replace"]), ("3", ["--debounce", "60/120"]))
    ]
    assert len({*ids}) == 1
    code, _, errors = terminal.run("submit", "work", "4", "--unique-key", "k", "--debounce", "soon")
    assert (code, "10/120" in errors) == (2, True)


def test_a_submit_comes_after_others(terminal: Terminal) -> None:
    first = terminal.run("submit", "work", "--name", "split")[1].strip()
    second = terminal.run("submit", "work", "--after", first, "--when", "ended", "--name", "join")[1].strip()
    assert [edge.after_id for edge in Edge.objects.filter(job_id=int(second))] == [int(first)]
    code, _, errors = terminal.run("submit", "work", "--after", "0")
    assert (code, "after" in errors) == (1, True)


class TestBulk:
    def test_counts_and_with_a_bound_does_it(self, terminal: Terminal) -> None:
        terminal.run("submit", "work", "--tag", "nightly")
        code, output, errors = terminal.run("bulk", "cancel", "--tag", "nightly")
        assert (code, errors, set(statuses())) == (0, "ready: 0 of 1 jobs\n", {"pending"})
        process = terminal.start("bulk", "begin", output.strip())
        until(lambda: Bulk.objects.get(pk=int(output)).phase == "running")
        scheduling.run_due()
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, errors.splitlines()[-1]) == (0, "done: 1 of 1 jobs: 1 canceled before start")
        assert statuses() == ["canceled"]

    def test_says_in_a_sentence_what_is_wrong(self, terminal: Terminal) -> None:
        code, _, errors = terminal.run("bulk", "stop", "none")
        assert (code, errors) == (2, "jobfarm: The id of a bulk action is a number.\n")
        code, _, errors = terminal.run("bulk", "change_queue", "nowhere")
        assert (code, "nowhere" in errors) == (1, True)


class TestSubmit:
    def test_prints_the_id_alone(self, terminal: Terminal) -> None:
        options = ("--unique-key", "one", "--wait", "--tag", "a", "--tag", "b")
        code, output, errors = terminal.run("submit", "work", '{"n": 1}', *options)
        job = Job.objects.whole().get()
        assert (code, output, errors) == (0, f"{job.pk}\n", "")
        assert (job.payload, job.unique_key, job.tags) == ({"n": 1}, "one", ["a", "b"])

    def test_reads_a_payload_from_standard_input(self, terminal: Terminal) -> None:
        code, output, _ = terminal.run("submit", "work", "-", "--json", typed='["x"]')
        assert (code, json.loads(output)["payload"]) == (0, ["x"])

    def test_says_in_a_sentence_what_is_wrong(self, terminal: Terminal, tmp_path: Path) -> None:
        refused = terminal.run("submit", "nonsense")
        assert (refused[0], refused[1], refused[2].count("\n")) == (1, "", 1)
        assert refused[2].startswith("jobfarm: ")
        no_json = terminal.run("submit", "work", "{")
        assert (no_json[0], no_json[2].startswith("jobfarm: The payload is not JSON")) == (2, True)
        nowhere = terminal.run("submit", "work", "--token-file", str(tmp_path / "none"))
        assert (nowhere[0], "cannot be read" in nowhere[2]) == (2, True)
        nobody = terminal.run("submit", "work", JOBFARM_TOKEN="")
        assert (nobody[0], "Whose jobs?" in nobody[2]) == (2, True)
        away = terminal.run("submit", "work", "--url", "http://127.0.0.1:9", "--retry-for", "0")
        assert (away[0], away[2].count("\n")) == (1, 1)

    def test_may_stay_until_the_job_has_ended(self, terminal: Terminal, crew: Crew) -> None:
        process = terminal.start("submit", "work", "--watch")
        held = begun(crew)
        crew.post(f"jobs/{held['id']}/output", lease=held["lease"], seq=0, text="Hello").raise_for_status()
        crew.post(f"jobs/{held['id']}/heartbeat", lease=held["lease"], progress=0.5, detail="Half").raise_for_status()
        finish(crew, held, outcome="failed", error="No such picture.", retryable=False)
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output) == (1, "Hello")
        assert f"job {held['id']} failed" in errors
        assert errors.endswith("No such picture.\n")


class TestOthers:
    def test_watch_prints_a_line_whenever_a_job_that_matches_changes(self, terminal: Terminal) -> None:
        terminal.run("submit", "work", "--tag", "nightly")
        job = Job.objects.get().pk
        process = terminal.start("watch", "--tag", "nightly")
        assert process.stdout is not None
        assert process.stdout.readline() == f"job {job} pending\n"
        terminal.run("cancel", str(job))
        assert process.stdout.readline() == f"job {job} canceled\n"
        code, _, errors = terminal.run("watch")
        assert (code, errors.startswith("jobfarm: Which jobs?")) == (2, True)

    def test_tail_prints_what_the_job_writes(self, terminal: Terminal, crew: Crew) -> None:
        terminal.run("submit", "work")
        held = begun(crew)
        process = terminal.start("tail", str(held["id"]))
        for seq, text in enumerate(["one ", "two\n"]):
            crew.post(f"jobs/{held['id']}/output", lease=held["lease"], seq=seq, text=text).raise_for_status()
        finish(crew, held, outcome="success")
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output, errors) == (0, "one two\n", "")

    def test_tail_ends_without_a_word_when_its_reader_has_gone(self, terminal: Terminal, crew: Crew) -> None:
        terminal.run("submit", "work")
        held = begun(crew)
        first, second = ({"lease": held["lease"], "seq": seq, "text": f"{seq}\n"} for seq in range(2))
        with terminal.start("tail", str(held["id"])) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            crew.post(f"jobs/{held['id']}/output", **first).raise_for_status()
            assert process.stdout.readline() == "0\n"
            process.stdout.close()
            crew.post(f"jobs/{held['id']}/output", **second).raise_for_status()
            assert (process.wait(60), process.stderr.read()) == (141, "")
        terminal.started.clear()

    def test_tail_writes_what_its_terminal_does_not_know_as_a_question_mark(
        self, terminal: Terminal, crew: Crew
    ) -> None:
        terminal.run("submit", "work")
        held = begun(crew)
        crew.post(f"jobs/{held['id']}/output", lease=held["lease"], seq=0, text="\u2192 caf\u00e9\n").raise_for_status()
        finish(crew, held, outcome="success")
        assert terminal.run("tail", str(held["id"]), PYTHONIOENCODING="ascii") == (0, "? caf?\n", "")

    def test_watch_prints_events_as_json(self, terminal: Terminal, crew: Crew) -> None:
        terminal.run("submit", "work")
        held = begun(crew)
        finish(crew, held, outcome="success", result=4)
        code, output, _ = terminal.run("watch", str(held["id"]), "--json")
        events = [json.loads(line) for line in output.splitlines()]
        assert (code, events[0]["event"], events[0]["result"]) == (0, "job", 4)
        assert events[-1] == {"event": "end", "status": "success"}

    def test_a_signal_is_sent(self, terminal: Terminal) -> None:
        job = terminal.run("submit", "work")[1].strip()
        sent = [terminal.run("signal", job, "approved", '{"by": "ada"}', "--id", "mail-7")[:2] for _ in range(2)]
        assert sent == [(0, "sent\n"), (0, "had come before\n")]

    def test_cancel_takes_several(self, terminal: Terminal, crew: Crew) -> None:
        ids = [terminal.run("submit", "work")[1].strip() for _ in range(2)]
        code, output, _ = terminal.run("cancel", *ids)
        assert (code, output) == (0, "".join(f"{job_id} canceled_before_start\n" for job_id in ids))
        assert status(int(ids[0])) == "canceled"
        assert until(lambda: terminal.run("cancel", "123456789")[0] == 1, what="a refusal")

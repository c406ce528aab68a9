"""The command line: what it refuses, and what signals do to a real process."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jobfarm_worker.__main__ import main
from tests.worker.unit.outside import KEY, FarmServer, until

HANDLERS = "tests.worker.unit.own_handlers:handlers"
URL = ["--url", "http://127.0.0.1:9"]


@asynccontextmanager
async def process(*arguments: str, key: str = KEY) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process; it is killed at the end if it is still there."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "jobfarm_worker",
        *arguments,
        env={**os.environ, "JOBFARM_KEY": key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def ended(child: asyncio.subprocess.Process) -> tuple[int | None, str]:
    output, _ = await asyncio.wait_for(child.communicate(), 15)
    return child.returncode, output.decode()


class TestOptions:
    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ([], "Which farm?"),
            (["--url", "localhost:8000", "--key", "k"], "is not the address of a farm"),
            ([*URL], "A worker needs its key"),
            ([*URL, "--key", "k"], "Which jobs?"),
            ([*URL, "--key", "k", "--handler", "nonsense"], "There is no handler 'nonsense'"),
            ([*URL, "--key", "k", "--handler", "chat", "--concurrency", "0"], "at least one job"),
            ([*URL, "--key", "k", "--handler", "chat", "--label", "vram"], "A label is such as vram=24"),
            ([*URL, "--key", "k", "--handler", "chat", "--label", "VRAM=24"], "its name of a-z 0-9"),
            ([*URL, "--key-file", "/no/such/file", "--handler", "chat"], "cannot be read"),
            ([*URL, "--key", "k", "--handler", "chat", "--handler", "chat-demo"], "Two handlers"),
        ],
    )
    def test_that_are_wrong_end_in_one_sentence_and_code_2(
        self, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for variable in ("JOBFARM_URL", "JOBFARM_KEY"):
            monkeypatch.delenv(variable, raising=False)
        code = main(arguments)
        error = capsys.readouterr().err
        assert (code, sentence in error, error.count("\n")) == (2, True, 1)

    def test_end_with_code_0_when_a_signal_comes_before_the_worker_listens_for_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A run that a shell started in the background ignores the signal; a worker that one starts by hand does not.
        heeded = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        (tmp_path / "slow_to_load.py").write_text(heeded + "signal.raise_signal(signal.SIGINT)")
        monkeypatch.syspath_prepend(tmp_path)
        assert main([*URL, "--key", "k", "--handler", "slow_to_load:work"]) == 0


class TestProcess:
    @pytest.mark.parametrize("transport", ["auto", "ws", "http"])
    async def test_with_a_wrong_key_ends_in_one_sentence_and_code_1(self, farm: FarmServer, transport: str) -> None:
        farm.lets_in_first = True  # the socket is opened, and closed with 4401
        arguments = ("--url", farm.url, "--handler", HANDLERS, "--transport", transport)
        async with process(*arguments, key="wrong") as child:
            code, output = await ended(child)
        sentence = "jobfarm_worker: The farm does not accept this key: it is wrong or was revoked.\n"
        assert (code, output) == (1, sentence)

    async def test_without_a_farm_says_when_it_asks_again_and_why(self) -> None:
        async with process(*URL, "--handler", HANDLERS, "--transport", "http") as child:
            assert child.stdout is not None
            line = (await asyncio.wait_for(child.stdout.readline(), 15)).decode()
        assert re.search(r"no work from http://127.0.0.1:9, asking again in \d\.\d s: All connection", line), line

    async def test_logs_which_job_a_line_of_a_handler_is_about(self, farm: FarmServer) -> None:
        job = farm.submit("talk", 32)
        async with process("--url", farm.url, "--handler", HANDLERS) as child:
            await until(lambda: job.finishes)
            child.send_signal(signal.SIGTERM)
            _, output = await ended(child)
        assert "WARNING job 1 talk: The model has 32 layers" in output
        about = [line for line in output.splitlines() if "job 1" in line]
        assert [line.split("job 1 talk: ")[1].split(" after ")[0] for line in about] == [
            "attempt 1", "The model has 32 layers", "success",
        ]  # fmt: skip

    async def test_logs_its_own_stop_as_about_no_job_whatever_the_signal_interrupts(self, farm: FarmServer) -> None:
        farm.submit("resign")
        async with process("--url", farm.url, "--handler", HANDLERS) as child:
            _, output = await ended(child)
        [line] = [line for line in output.splitlines() if "stopping: " in line]
        assert "job" not in line

    async def test_lets_a_job_finish_on_sigterm_and_ends_with_code_0(self, farm: FarmServer) -> None:
        first, second = farm.submit("wait", 0.5), farm.submit("wait", 0.5)
        async with process("--url", farm.url, "--handler", HANDLERS) as child:
            await until(lambda: first.reports)
            child.send_signal(signal.SIGTERM)
            code, output = await ended(child)
        assert (code, first.status, first.result) == (0, "success", "waited")
        assert (second.status, second.attempt) == ("pending", 0)
        assert "job 1 wait: success" in output

    @pytest.mark.parametrize("kind", ["wait", "deaf", "deaf thread", "stubborn"])
    @pytest.mark.parametrize("arguments", [["--grace", "0.1"], ["--transport", "http", "--grace", "60"]])
    async def test_gives_back_what_takes_too_long(self, farm: FarmServer, kind: str, arguments: list[str]) -> None:
        job = farm.submit(kind, 60)
        async with process("--url", farm.url, "--handler", HANDLERS, *arguments) as child:
            await until(lambda: job.is_confirmed)
            child.send_signal(signal.SIGTERM)
            if "60" in arguments:  # a long grace: the second signal ends it
                assert child.stdout is not None
                while b"stopping" not in await asyncio.wait_for(child.stdout.readline(), 10):
                    pass
                child.send_signal(signal.SIGINT)
            code, _ = await ended(child)
        assert (code, job.status, job.finishes, farm.calls["release"]) == (0, "pending", 0, 1)

    async def test_goes_on_when_a_handler_ends_a_process_that_it_forked(self, farm: FarmServer) -> None:
        """Its signals came to the worker, which stopped, and the process went on."""
        job, after = farm.submit("fork", 20), farm.submit("wait", 0)
        async with process("--url", farm.url, "--handler", HANDLERS):
            await until(lambda: after.finishes, timeout_s=20)
        assert job.result == -signal.SIGTERM

    async def test_goes_on_in_one_process_alone(self, farm: FarmServer) -> None:
        """One that a handler forked, and that came back from it, stayed for ever, and read the worker's sockets."""
        jobs = [farm.submit(kind) for kind in ("go on twice", "return twice")]
        async with process("--url", farm.url, "--handler", HANDLERS):
            await until(lambda: all(job.finishes for job in jobs))
        assert [job.result for job in jobs] == [3, 0]

    async def test_reads_its_key_from_a_file(self, farm: FarmServer, tmp_path: Path) -> None:
        (tmp_path / "key").write_text(f"\ufeff{KEY}\n")  # as Windows writes it
        job = farm.submit("wait", 0)
        arguments = ("--url", farm.url, "--handler", HANDLERS, "--key-file", str(tmp_path / "key"))
        async with process(*arguments, key="wrong") as child:
            await until(lambda: job.finishes)
            child.send_signal(signal.SIGINT)
            code, _ = await ended(child)
        assert (code, job.status) == (0, "success")

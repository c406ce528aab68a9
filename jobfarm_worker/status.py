"""What a person at the terminal sees: a live status line, or plain log lines when there is no terminal."""

import logging
import sys

from rich.console import Console
from rich.live import Live
from rich.logging import RichHandler
from rich.text import Text

from jobfarm_worker import logs
from jobfarm_worker.scoreboard import Running
from jobfarm_worker.worker import Worker

SHOWN = 4  # running jobs that fit into a line


def show(worker: Worker, *, is_verbose: bool) -> None:
    """Run the worker until a signal, printing what it does; raises like `Worker.run`."""
    console = Console()
    if console.is_terminal and not logs.are_json():
        _log_to(RichHandler(console=console, show_path=False), "%(message)s", is_verbose=is_verbose)
        with Live(console=console, get_renderable=lambda: line(worker), refresh_per_second=4, transient=True):
            worker.run_forever()
        console.print(line(worker))
        return
    form = "%(asctime)s %(levelname)-7s %(message)s"
    _log_to(logging.StreamHandler(sys.stdout), form, is_verbose=is_verbose)
    worker.run_forever()


def _log_to(handler: logging.Handler, form: str, *, is_verbose: bool) -> None:
    handler.setFormatter(logs.JsonLines() if logs.are_json() else logs.TextLines(form))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("jobfarm_worker").setLevel(logging.DEBUG if is_verbose else logging.INFO)


def line(worker: Worker) -> Text:
    """The status line: name, connection, endings so far, and what runs with its progress."""
    endings = worker.board.endings
    running = list(worker.board.jobs.values())  # a copy: the loop's thread adds and removes
    parts = [
        (worker.name, "bold"),
        (worker.connection, "dim"),
        (f"{endings['success']} done", "green"),
        (f"{endings['failed']} failed", "red" if endings["failed"] else "dim"),
        (f"{endings['stopped']} stopped", "dim"),
        *((_describe(job), "cyan") for job in running[:SHOWN]),
    ]
    if len(running) > SHOWN:
        parts.append((f"and {len(running) - SHOWN} more", "cyan"))
    text = Text("  ").join(Text(words, style=style) for words, style in parts)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _describe(job: Running) -> str:
    percent = "" if job.fraction is None else f" {job.fraction:.0%}"
    detail = " (stopped, runs on)" if job.is_stopped else f" {job.detail}" if job.detail else ""
    return f"#{job.id} {job.kind}{percent}{detail}"

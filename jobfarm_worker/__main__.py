"""`python -m jobfarm_worker`: a worker from the command line, and what a person sees there: a live status line, or
plain log lines when there is no terminal."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.logging import RichHandler
from rich.text import Text

from jobfarm_client import wire
from jobfarm_worker import observing
from jobfarm_worker.errors import BadOption, WorkerError
from jobfarm_worker.handlers import named
from jobfarm_worker.observing import Running
from jobfarm_worker.options import MOST_READY, VERSION, written_labels
from jobfarm_worker.worker import Worker

SHOWN = 4  # running jobs that fit into the status line
EXAMPLES = """\
handlers:
  chat, image, openai       the ones that come along: an OpenAI-compatible server if JOBFARM_LLM_URL,
                            JOBFARM_IMAGE_URL or OPENAI_BASE_URL names one, else a built-in demonstrator
  openai                    calls of OpenAI's API: those of the farm's /v1 for the models that the server has
  chat-demo, image-demo, openai-demo    the demonstrators, whatever is configured
  kind=module:function      a function of yours for one kind
  module:handlers           a Handlers object of yours, with all its kinds
  kind=chat                 one that comes along, for jobs of another kind

the process ends with 0 after a signal, 1 when the farm refuses it, 2 when an option is wrong
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a worker until a signal; returns 0 when stopped, 1 when the farm refused, 2 for a wrong option."""
    options = _parser().parse_args(arguments)
    try:
        _run(_worker(options), is_verbose=options.verbose)
    except WorkerError as error:
        print(f"jobfarm_worker: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadOption) else 1
    except KeyboardInterrupt:
        pass  # before the worker listens for signals, or after it gave back what it held
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m jobfarm_worker",
        description="Takes jobs of a farm and runs them on this machine.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--url", default=os.environ.get("JOBFARM_URL"), help="address of the farm (or JOBFARM_URL)")
    add("--key", help="key of this worker; process lists show it, so prefer JOBFARM_KEY or --key-file")
    add("--key-file", type=Path, metavar="FILE", help="file that holds the key, alone")
    add("--handler", action="append", default=[], metavar="WHAT", help="what to run; may be repeated (see below)")
    add("--queues", metavar="A,B", help="take jobs from these queues only")
    add("--concurrency", type=int, default=1, metavar="N", help="jobs at a time (1)")
    add("--transport", choices=("auto", "ws", "http"), default="auto", help="WebSocket, HTTP, or what works")
    add("--grace", type=float, default=10.0, metavar="SECONDS", help="for running jobs after a signal (10)")
    ready = f"most short jobs to keep ready ({MOST_READY}); 0: none, and one call a job"
    add("--prefetch", type=int, default=MOST_READY, metavar="N", help=ready)
    label = "what jobs may require of this machine, as vram=24 or region=home; may be repeated"
    add("--label", action="append", default=[], metavar="LABEL=VALUE", help=label)
    add("--name", help="what to call this process in the farm's logs (the host's name)")
    add("--verbose", action="store_true", help="also log errors that are retried")
    add("--version", action="version", version=VERSION)
    return parser


def _worker(options: argparse.Namespace) -> Worker:
    if not options.url:
        raise BadOption("Which farm? Give --url or set JOBFARM_URL.")
    queues = [name.strip() for name in (options.queues or "").split(",") if name.strip()]
    key = options.key or os.environ.get("JOBFARM_KEY", "")
    if options.key_file is not None and not options.key:
        key = wire.secret_in(options.key_file, name="key")
    worker = Worker(
        options.url,
        key,
        queues=queues or None,
        concurrency=options.concurrency,
        transport=options.transport,
        grace_s=options.grace,
        prefetch=options.prefetch,
        labels=written_labels(options.label),
    )
    worker.name = options.name or worker.name
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does, so that the installed command finds handlers too
    for spec in options.handler:
        worker.include(named.handlers(spec))
    if not options.handler:
        raise BadOption("Which jobs? Give --handler at least once, for instance --handler chat.")
    return worker


def _run(worker: Worker, *, is_verbose: bool) -> None:
    """Run the worker until a signal, printing what it does; raises like `Worker.run`."""
    console = Console()
    if console.is_terminal and not observing.logs_are_json():
        _log_to(RichHandler(console=console, show_path=False), "%(message)s", is_verbose=is_verbose)
        with Live(console=console, get_renderable=lambda: _status(worker), refresh_per_second=4, transient=True):
            worker.run_forever()
        console.print(_status(worker))
        return
    form = "%(asctime)s %(levelname)-7s %(message)s"
    _log_to(logging.StreamHandler(sys.stdout), form, is_verbose=is_verbose)
    worker.run_forever()


def _log_to(handler: logging.Handler, form: str, *, is_verbose: bool) -> None:
    handler.setFormatter(observing.JsonLines() if observing.logs_are_json() else observing.TextLines(form))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("jobfarm_worker").setLevel(logging.DEBUG if is_verbose else logging.INFO)


def _status(worker: Worker) -> Text:
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
    latest = job.outbox.latest
    percent = "" if latest.fraction is None else f" {latest.fraction:.0%}"
    detail = " (stopped, runs on)" if job.outbox.stopped else f" {latest.detail}" if latest.detail else ""
    return f"#{job.id} {job.kind}{percent}{detail}"


if __name__ == "__main__":
    sys.exit(main())

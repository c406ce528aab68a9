"""`jobfarm submit`, `watch`, `tail`, `cancel`, `bulk`: a farm from a terminal, also without the server's packages."""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

from jobfarm_client import wire
from jobfarm_client.client import Client
from jobfarm_client.errors import BadOption, FarmError
from jobfarm_client.models import BulkAction, BulkFilters, EventFilters, Job

_POLL_EVERY_S: Final = 0.5  # a bulk action, while it goes on
VERBS: Final = ("submit", "watch", "tail", "cancel", "signal", "bulk")
_CONDITION: Final = re.compile(r"\s*([^\s=<>]+?)\s*(>=|<=|=)\s*(.*?)\s*", re.DOTALL)
EPILOG: Final = """\
the farm's address and your token: --url and --token-file, or JOBFARM_URL and JOBFARM_TOKEN
ends with 0; with 1 if the farm refuses or the job did not succeed, with 2 if an option makes no sense
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of VERBS; the process's status: 0, 1 for a refusal or a job that did not succeed, 2 for an option."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # output may be any text; a terminal of Windows knows 256 characters
    try:
        token = options.token_file and wire.secret_in(options.token_file, name="token")
        with Client(options.url, token, retry_for_s=options.retry_for) as farm:
            return _COMMANDS[options.verb](farm, options)
    except (FarmError, ValueError) as error:
        print(f"jobfarm: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadOption | ValueError) else 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains as it ends
        return 141  # as a shell says of what ended since nobody reads
    except KeyboardInterrupt:
        return 130  # as a shell says of what SIGINT ended; the job goes on


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="jobfarm", epilog=EPILOG, formatter_class=raw)
    verbs = parser.add_subparsers(dest="verb", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--url", help="address of the farm (or JOBFARM_URL)")
    common.add_argument("--token-file", type=Path, metavar="FILE", help="file with your token, alone")
    common.add_argument("--retry-for", type=float, default=60.0, metavar="SECONDS", help="while the farm is away (60)")
    common.add_argument("--json", action="store_true", help="print JSON: a job, or a line for each event")

    def add(verb: str, about: str) -> Callable[..., Any]:
        return verbs.add_parser(
            verb, help=about, description=about, epilog=EPILOG, formatter_class=raw, parents=[common]
        ).add_argument

    _add_submit(add("submit", "Submit a job and print its id."))
    _add_watch(add("watch", "Show a job's progress and output until it has ended, or how all that match change."))
    add("tail", "Print what a job writes, until it has ended.")("job", type=int)
    add("cancel", "Cancel jobs and print what that came to.")("jobs", type=int, nargs="+", metavar="job")
    _add_signal(add("signal", "Send a job a signal that it waits for, or will."))
    _add_bulk(add("bulk", "Act on all jobs that match: count them, and with --up-to do it."))
    return parser


def _add_watch(add: Callable[..., Any]) -> None:
    add("job", type=int, nargs="?", help="or, without end, all jobs")
    add("--tag", help="with all of these: a,b")
    add("--kind", help="of this kind")
    add("--owner", help="of this person; me: yours")
    add("--flow", type=int, help="of the flow with this id")


def _add_signal(add: Callable[..., Any]) -> None:
    add("job", type=int)
    add("name")
    add("data", nargs="?", default="null", help="JSON; - reads it from standard input (null)")
    add("--id", help="your name for it: the same again is one signal")


def _add_bulk(add: Callable[..., Any]) -> None:
    add("action", choices=[*_BULKS, *_STEPS], help="for jobs; or, of a bulk action by its id, what to do with it")
    add("value", nargs="?", help="the new queue or priority; of show, begin, stop and undo the id")
    for name in ("status", "kind", "queue", "owner", "group", "worker"):
        add(f"--{name}", help=f"of jobs with this {name}")
    add("--tag", help="of jobs with all of these: a,b")
    add("--due", help="of pending jobs: now or later")
    add("--age", help="of jobs of the last hour, day, week or month")
    add("--text", help="of jobs with this text, as the list of jobs finds it")
    add("--up-to", type=int, metavar="N", help="begin if no more than N match; else only count")
    add("--idempotency-key", metavar="KEY", help="a repeat with this key within 24 hours makes no second one")


def _add_submit(add: Callable[..., Any]) -> None:
    add("kind")
    add("payload", nargs="?", default="null", help="JSON; - reads it from standard input (null)")
    add("--queue")
    add("--priority", type=int, metavar="N")
    add("--run-at", type=datetime.fromisoformat, metavar="TIME", help="not before, as 2030-01-31T12:00:00Z")
    add("--unique-key", metavar="KEY", help="refused while a job of yours of this kind and key has not ended")
    add("--on-conflict", choices=["refuse", "replace", "after"], help="instead: replace that job, or run after it")
    add("--debounce", metavar="QUIET/AT_MOST", help="after it, once so many seconds were quiet, as 10/120")
    add("--concurrency-key", metavar="KEY", help="so many jobs with it run at a time as its kind or queue says")
    add("--require", action="append", metavar="CONDITION", help="on its worker's labels, as vram>=16; may be repeated")
    add("--prefer", action="append", metavar="CONDITION", help="the same, of the workers that get it first")
    add("--tag", action="append", metavar="TAG", help="that it is found by; may be repeated")
    add("--after", action="append", type=int, metavar="JOB", help="that it starts after; may be repeated")
    add("--when", choices=["success", "ended"], help="how those have to end (success)")
    add("--name", help="what it is called within its flow")
    add("--group", help="of yours, that may see the job and work on it")
    add("--wait", action="store_true", help="for a budget's next window, where it has no room now")
    add("--idempotency-key", metavar="KEY", help="a repeat with this key within 24 hours submits nothing")
    add("--watch", action="store_true", help="then show it until it has ended")


def _submit(farm: Client, options: argparse.Namespace) -> int:
    names = (
        "queue", "priority", "run_at", "unique_key", "on_conflict", "concurrency_key", "group", "idempotency_key",
        "after", "when", "name",
    )  # fmt: skip
    chosen = {name: getattr(options, name) for name in names}
    chosen |= {"tags": options.tag, "wait": options.wait or None, "debounce": _debounce(options.debounce)}
    chosen |= {"requires": _conditions(options.require), "prefers": _conditions(options.prefer)}
    job = farm.submit(options.kind, _payload(options.payload), **chosen)
    if options.watch:
        return _show(farm, job.id, options)
    print(_text(asdict(job)) if options.json else job.id)
    return 0


def _debounce(written: str | None) -> dict[str, float] | None:
    if written is None:
        return None
    try:
        quiet, at_most = map(float, written.split("/"))
    except ValueError:
        raise BadOption(f"A debounce is such as 10/120, not {written!r}.") from None
    return {"quiet": quiet, "at_most": at_most}


def _conditions(written: Sequence[str] | None) -> dict[str, Any] | None:
    named: dict[str, Any] = {}
    for text in written or ():
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise BadOption(f"A condition is such as vram>=16 or region=home|lab, not {text!r}.")
        label, sign, value = match.groups()
        named[label] = value if sign == "=" else sign + value
    return named or None


def _payload(text: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise BadOption(f"The payload is not JSON: {error}.") from error


def _watch(farm: Client, options: argparse.Namespace) -> int:
    filters = {name: value for name in EventFilters.__annotations__ if (value := getattr(options, name))}
    if (options.job is None) != bool(filters):
        raise BadOption("Which jobs? The number of one, or some of --tag, --kind, --owner and --flow.")
    return _show(farm, options.job, options) if options.job else _show_all(farm, filters, options)


def _show_all(farm: Client, filters: Any, options: argparse.Namespace) -> int:
    for event in farm.events_that_match(**filters):
        line = _line(event.job) if event.job else "more was missed than is sent again: list them anew"
        print(_text({"event": event.name, **event.data}) if options.json else line, flush=True)
    return 0


def _show(farm: Client, job_id: int, options: argparse.Namespace) -> int:
    """Output as it is; what becomes of the job on standard error, a line for each change."""
    line = ""
    for event in farm.events(job_id):
        if options.json:
            print(_text({"event": event.name, **event.data}), flush=True)
        elif event.name == "output":
            print(event.text, end="", flush=True)
        elif event.job and (now := _line(event.job)) != line:
            line = now
            print(line, file=sys.stderr)
    job = farm.job(job_id)
    if job.error and not options.json:
        print(job.error.rstrip(), file=sys.stderr)
    return 0 if job.status == "success" else 1


def _tail(farm: Client, options: argparse.Namespace) -> int:
    how = ""
    for event in farm.events(options.job):
        how = str(event.data["status"]) if event.name == "end" else how
        if event.name == "output":
            print(_text(event.data), flush=True) if options.json else print(event.text, end="", flush=True)
    return 0 if how == "success" else 1


def _cancel(farm: Client, options: argparse.Namespace) -> int:
    canceled = {job_id: farm.cancel(job_id) for job_id in options.jobs}
    for job_id, outcome in canceled.items():
        how = f" ({outcome.status})" if outcome.verdict == "too_late" else ""
        print(_text({"job": job_id, **asdict(outcome)}) if options.json else f"{job_id} {outcome.verdict}{how}")
    return 0 if all(outcome.is_canceled for outcome in canceled.values()) else 1


def _signal(farm: Client, options: argparse.Namespace) -> int:
    is_new = farm.signal(options.job, options.name, _payload(options.data), key=options.id)
    print(_text({"job": options.job, "is_new": is_new}) if options.json else "sent" if is_new else "had come before")
    return 0


def _bulk(farm: Client, options: argparse.Namespace) -> int:
    """Have it counted and perhaps done, or one that is there begun, stopped, undone; followed while it goes on."""
    if (step := _STEPS.get(options.action)) is not None:
        if not (options.value or "").isdecimal():
            raise BadOption("The id of a bulk action is a number.")
        bulk = step(farm, int(options.value))
    else:
        named = {name: getattr(options, name) for name in BulkFilters.__annotations__ if getattr(options, name, None)}
        own = {"begin_up_to": options.up_to, "idempotency_key": options.idempotency_key}
        bulk = farm.bulk(options.action, value=options.value, **own, **named)
    line = ""
    while True:
        if (now := _progress(bulk)) != line:
            line = now
            print(line, file=sys.stderr)
        if bulk.phase not in {"counting", "running"}:
            break
        time.sleep(_POLL_EVERY_S)
        bulk = farm.bulk_action(bulk.id)
    print(_text(asdict(bulk)) if options.json else bulk.id)
    return 1 if bulk.phase == "stopped" else 0


def _progress(bulk: BulkAction) -> str:
    came_to = "; ".join(f"{count} {result}" for result, count in bulk.results.items())
    why = f" ({bulk.why})" if bulk.why else ""
    return f"{bulk.phase}{why}: {bulk.handled} of {bulk.matched} jobs" + (f": {came_to}" if came_to else "")


_BULKS: Final = ("cancel", "retry", "run_now", "change_queue", "change_priority")
_STEPS: Final[Mapping[str, Callable[[Client, int], BulkAction]]] = {
    "show": Client.bulk_action, "begin": Client.begin_bulk, "stop": Client.stop_bulk, "undo": Client.undo_bulk,
}  # fmt: skip
_COMMANDS: Final[Mapping[str, Callable[[Client, argparse.Namespace], int]]] = {
    "submit": _submit, "watch": _watch, "tail": _tail, "cancel": _cancel, "signal": _signal, "bulk": _bulk,
}  # fmt: skip


def _line(job: Job) -> str:
    percent = "" if job.progress is None else f" {job.progress:.0%}"
    detail = f" {job.detail}" if job.detail else ""
    worker = f" on {job.worker}" if job.worker and job.status == "in_progress" else ""
    return f"job {job.id} {job.status.replace('_', ' ')}{worker}{percent}{detail}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)

"""`jobfarm submit`, `watch`, `tail` and `cancel`: a farm from a terminal, with or without the server's packages."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from jobfarm_client.client import Client
from jobfarm_client.errors import BadOption, FarmError
from jobfarm_client.models import Job

VERBS: Final = ("submit", "watch", "tail", "cancel")
_CONDITION: Final = re.compile(r"\s*([^\s=<>]+?)\s*(>=|<=|=)\s*(.*?)\s*", re.DOTALL)
EPILOG: Final = """\
the farm's address and your token: --url and --token-file, or JOBFARM_URL and JOBFARM_TOKEN
ends with 0; with 1 if the farm refuses or the job did not succeed, with 2 if an option makes no sense
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of VERBS; the process's status: 0, 1 for a refusal or a job that did not succeed, 2 for an option."""
    options = _parser().parse_args(arguments)
    try:
        with Client(options.url, _token(options), retry_for_s=options.retry_for) as farm:
            return _COMMANDS[options.verb](farm, options)
    except (FarmError, ValueError) as error:
        print(f"jobfarm: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadOption | ValueError) else 1
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
    add("watch", "Show a job's progress and output until it has ended.")("job", type=int)
    add("tail", "Print what a job writes, until it has ended.")("job", type=int)
    add("cancel", "Cancel jobs and print what that came to.")("jobs", type=int, nargs="+", metavar="job")
    return parser


def _add_submit(add: Callable[..., Any]) -> None:
    add("kind")
    add("payload", nargs="?", default="null", help="JSON; - reads it from standard input (null)")
    add("--queue")
    add("--priority", type=int, metavar="N")
    add("--run-at", type=datetime.fromisoformat, metavar="TIME", help="not before, as 2030-01-31T12:00:00Z")
    add("--unique-key", metavar="KEY", help="refused while a job of yours of this kind and key has not ended")
    add("--require", action="append", metavar="CONDITION", help="on its worker's labels, as vram>=16; may be repeated")
    add("--prefer", action="append", metavar="CONDITION", help="the same, of the workers that get it first")
    add("--group", help="of yours, that may see the job and work on it")
    add("--wait", action="store_true", help="for a budget's next window, where it has no room now")
    add("--idempotency-key", metavar="KEY", help="a repeat with this key within 24 hours submits nothing")
    add("--watch", action="store_true", help="then show it until it has ended")


def _token(options: argparse.Namespace) -> str | None:
    if options.token_file is None:
        return None
    try:
        return str(options.token_file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"The token file {options.token_file} cannot be read: {error}.") from error


def _submit(farm: Client, options: argparse.Namespace) -> int:
    names = ("queue", "priority", "run_at", "unique_key", "group", "idempotency_key")
    chosen = {name: getattr(options, name) for name in names} | {"wait": options.wait or None}
    chosen |= {"requires": _conditions(options.require), "prefers": _conditions(options.prefer)}
    job = farm.submit(options.kind, _payload(options.payload), **chosen)
    if options.watch:
        return _show(farm, job.id, options)
    print(_text(asdict(job)) if options.json else job.id)
    return 0


def _conditions(written: Sequence[str] | None) -> dict[str, Any] | None:
    """Conditions as people write them: `vram>=16`, `region=home|lab`."""
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
    return _show(farm, options.job, options)


def _show(farm: Client, job_id: int, options: argparse.Namespace) -> int:
    """Output as it is; what becomes of the job on standard error, a line for each change."""
    line = ""
    for event in farm.events(job_id):
        if options.json:
            print(_text({"event": event.name, **event.data}), flush=True)
        elif event.name == "output":
            _write(event.text)
        elif event.name == "job" and (now := _line(Job.from_json(event.data))) != line:
            line = now
            print(line, file=sys.stderr)
    return 0 if _ended_well(farm, job_id, options) else 1


def _tail(farm: Client, options: argparse.Namespace) -> int:
    how = ""
    for event in farm.events(options.job):
        how = str(event.data["status"]) if event.name == "end" else how
        if event.name == "output":
            print(_text(event.data), flush=True) if options.json else _write(event.text)
    return 0 if how == "success" else 1


def _cancel(farm: Client, options: argparse.Namespace) -> int:
    canceled = {job_id: farm.cancel(job_id) for job_id in options.jobs}
    for job_id, outcome in canceled.items():
        how = f" ({outcome.status})" if outcome.verdict == "too_late" else ""
        print(_text({"job": job_id, **asdict(outcome)}) if options.json else f"{job_id} {outcome.verdict}{how}")
    return 0 if all(outcome.is_canceled for outcome in canceled.values()) else 1


_COMMANDS: Final[Mapping[str, Callable[[Client, argparse.Namespace], int]]] = {
    "submit": _submit, "watch": _watch, "tail": _tail, "cancel": _cancel,
}  # fmt: skip


def _ended_well(farm: Client, job_id: int, options: argparse.Namespace) -> bool:
    job = farm.job(job_id)
    if job.error and not options.json:
        print(job.error.rstrip(), file=sys.stderr)
    return job.status == "success"


def _line(job: Job) -> str:
    percent = "" if job.progress is None else f" {job.progress:.0%}"
    detail = f" {job.detail}" if job.detail else ""
    worker = f" on {job.worker}" if job.worker and job.status == "in_progress" else ""
    return f"job {job.id} {job.status.replace('_', ' ')}{worker}{percent}{detail}"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)

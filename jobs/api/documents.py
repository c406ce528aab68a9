"""The page at /api/docs: what it says before its calls, whose examples run once FARM, KEY, JOB and LEASE are set; and
the examples with curl, in Python and in JavaScript, of one call each, so that none can differ."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from core.api import Sample

API: Final = """
Two kinds of callers, two kinds of keys, both sent as `Authorization: Bearer <key>`:

* **Workers** take jobs and report on them. The command `create_worker NAME --queue QUEUE` makes a worker and
  prints its key (`jfw_...`) once; the admin does the same.
* **Clients** submit jobs, follow and cancel them. The account page, or the command `create_token USER`, makes
  a person's API token (`jft_...`) and shows it once. In a browser the session of whoever is logged in
  serves as well; calls that change something then need the header `X-CSRFToken`.

Bodies are JSON with `Content-Type: application/json`. Unknown fields are refused. Times are ISO 8601 in UTC.

Errors always have this form, with the status that fits, and with the numbers that matter beside it:

    {"error": "output_gap", "message": "Output must be sent in order: ... number 3.", "next_seq": 3}

400 `not_json`; 401 `unauthorized` (no key, a wrong or a revoked one, or one that ran out); 403 `forbidden`,
`queue_not_allowed`, `insufficient_scope` (a token has some of the scopes `submit`, `read` for all that looks, and
`operate` to cancel, retry and run now; without `read` the answers leave out what a job was given and gave);
404 `not_found` (also for jobs that are not yours to see); 405 `method_not_allowed`; 409 `lease_lost`,
`output_gap`, `not_unique`, `not_ended`, `file_in_use`, `idempotency_key_in_use`; 410 `job_deleted`; 413 `too_large`,
`quota_reached`; 415 `unsupported_media_type`; 422 `invalid`, `invalid_json`, `invalid_name`, `unknown_kind`,
`unknown_queue`, `unknown_file`, `not_a_member`, `idempotency_key_reused`, `count_exceeds` (more at once than a limit
ever grants), `exceeds_budget` (more than a budget is); 429 `rate_limited`: nothing was stored, come back after
`retry_after` seconds, which the header
`Retry-After` says too; 429 `budget_exhausted`: the same for a budget, but with `X-Wait: 1` the job is stored and waits;
429 `quota_reached`: as many jobs of yours, or in all, wait as may, and nothing was stored;
503 `unavailable`: the database is away, or others were changing the same at every try (with `Retry-After`): nothing
was changed, make the call again.

A worker made of curl, from the claim to the result:

    export FARM=http://127.0.0.1:8000 KEY=jfw_...
    curl -sS $FARM/api/v1/worker/claim -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"wait": 30}'
    export JOB=7 LEASE=1-...      # id and lease of the job that came
    curl -sS $FARM/api/v1/worker/jobs/$JOB/heartbeat -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'"}'
    curl -sS $FARM/api/v1/worker/jobs/$JOB/output -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'", "seq": 0, "text": "Hello."}'
    curl -sS $FARM/api/v1/worker/jobs/$JOB/finish -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'", "outcome": "success", "result": 42}'

The same verbs travel over one WebSocket at `/ws/worker/`, with the same key in the same header: send
`{"type": "claim", "ref": 1, "limit": 1}`, get `{"type": "claim", "ref": 1, "jobs": [...]}`; where a path
here names a job, the message has it as `"job"`. Types: `claim heartbeat
heartbeat_many output finish finish_many release unclaim`.
An error is `{"type": "error", "ref": 1, "status": 409, "error": "lease_lost", "message": "..."}`. A claim with
`wait` is answered when there is a job, other calls meanwhile. Without being asked the farm says
`{"type": "stop", "job": 7, "fence": 1, "reason": "canceled"}` when this claim of a job was taken from the worker, which
may have got the job anew since, and, to one that claims without `wait`, `{"type": "work", "available": true}` once
there is something after a claim that got fewer jobs than it asked for, and `{"type": "share"}` when another worker
waits: give back by `unclaim` what you have not begun. It closes with code 4401 when the key is refused or revoked. A
message may have 10 MB; put `ref` before the long fields, and one that is larger is refused (413 `too_large`) under it.
"""
_VARIABLE: Final = re.compile(r"\$([A-Z]+)")
_QUOTED: Final = re.compile(r"""(['"])\$([A-Z]+)\1""")
_IMPORTS: Final = "import os\n\nimport httpx\n\n"
_WIDE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as its examples make it. Texts hold variables as `$NAME`."""

    method: str
    url: str
    key: str
    sample: Sample

    @property
    def authorization(self) -> str:
        return f"Bearer {self.key}"


def call_of(method: str, path: str, operation: dict[str, Any], sample: Sample) -> Call:
    """The call that this operation of the document is: an id of its path is a variable of that name."""
    named = path.replace("{name}", sample.name or sample.sends or sample.keeps)
    filled = re.sub(r"{(\w+)_id}", lambda match: f"${match[1].upper()}", named)
    is_of_workers = "WorkerKey" in str(operation["security"])
    query = f"?{sample.query}" if sample.query else ""
    return Call(
        method=method.upper(), url=f"$FARM{filled}{query}", key="$KEY" if is_of_workers else "$TOKEN", sample=sample
    )


def with_samples(description: str, call: Call) -> str:
    """The description, with the call's examples at its end."""
    indented = "\n".join(f"    {line}" for line in curl(call).splitlines())
    return (
        f"{description}\n\n{indented}\n\n"
        f"In Python, with httpx:\n\n```python\n{python(call)}```\n\n"
        f"In JavaScript:\n\n```javascript\n{javascript(call)}```\n"
    ).lstrip()


def curl(call: Call) -> str:
    """A command that makes this call, with its variables from the shell."""
    usual = "GET" if call.sample.body is None else "POST"
    words = ["curl", "-sSN" if call.sample.is_stream else "-sS"]
    words += ["-X", call.method] if call.method != usual else []
    words += [f'"{call.url}"' if "?" in call.url else call.url, f'-H "Authorization: {call.authorization}"']
    sent = ""
    if call.sample.body is not None:
        text = json.dumps(call.sample.body, ensure_ascii=False).replace('"$JOB"', "'$JOB'")
        text = re.sub(r'"(\$[A-Z]+)"', "\"'\\1'\"", text)
        sent = f"-H 'Content-Type: application/json' -d '{text}'"
    if call.sample.sends:
        sent = f"-H 'Content-Type: application/octet-stream' --data-binary @{call.sample.sends}"
    kept = f"-o {call.sample.keeps}" if call.sample.keeps else ""
    line = " ".join([*words, *filter(None, (sent, kept))])
    return line if len(line) <= _WIDE or not sent else f"{' '.join(words)} \\\n     {sent}"


def python(call: Call) -> str:
    """A program that makes this call, with its variables from the environment."""
    arguments = [f"{_python_text(call.url)},"]
    arguments.append(f'headers={{"Authorization": {_python_text(call.authorization)}}},')
    if call.sample.body is not None:
        body = _with_variables(repr(call.sample.body), job='int(os.environ["JOB"])', other='os.environ["{}"]')
        arguments.append(f"json={body},")
    if call.sample.sends:
        arguments.append(f'content=open("{call.sample.sends}", "rb").read(),')
    inner = "\n".join(f"    {argument}" for argument in arguments)
    if call.sample.is_stream:
        lines = f'with httpx.stream(\n    "{call.method}",\n{inner}\n    timeout=None,\n) as answer:\n'
        return f"{_IMPORTS}{lines}    for line in answer.iter_lines():\n        print(line)\n"
    last = f'open("{call.sample.keeps}", "wb").write(answer.content)' if call.sample.keeps else "print(answer.json())"
    timeout = "    timeout=60,\n"
    return f"{_IMPORTS}answer = httpx.{call.method.lower()}(\n{inner}\n{timeout})\nanswer.raise_for_status()\n{last}\n"


def javascript(call: Call) -> str:
    """A module that makes this call, with its variables from the environment (Node.js, Deno, Bun)."""
    options = [f'method: "{call.method}",']
    typed = "" if call.sample.body is None else ', "Content-Type": "application/json"'
    options.append(f'headers: {{ "Authorization": {_js_text(call.authorization)}{typed} }},')
    if call.sample.body is not None:
        body = json.dumps(call.sample.body, ensure_ascii=False)
        options.append(f"body: JSON.stringify({_with_variables(body, job='Number(JOB)', other='{}')}),")
    if call.sample.sends:
        options.append(f'body: await readFile("{call.sample.sends}"),')
    inner = "\n".join(f"  {option}" for option in options)
    begin = 'import { readFile } from "node:fs/promises";\n' if call.sample.sends else ""
    begin += 'import { writeFile } from "node:fs/promises";\n' if call.sample.keeps else ""
    begin += f'import process from "node:process";\n\nconst {{ {", ".join(_names(call))} }} = process.env;\n'
    return f"{begin}const answer = await fetch({_js_text(call.url)}, {{\n{inner}\n}});\n{_js_end(call)}"


def _names(call: Call) -> list[str]:
    texts = [call.url, call.authorization, json.dumps(call.sample.body)]
    return list(dict.fromkeys(_VARIABLE.findall(" ".join(texts))))


def _python_text(text: str) -> str:
    filled = re.sub(r"\$([A-Z]+)", r"{os.environ['\1']}", text)
    return f'{"f" if filled != text else ""}"{filled}"'


def _js_text(text: str) -> str:
    filled = re.sub(r"\$([A-Z]+)", r"${\1}", text)
    return f"`{filled}`" if filled != text else json.dumps(text)


def _with_variables(text: str, *, job: str, other: str) -> str:
    """The text of a value, whose texts that begin with $ are variables, as a language writes them."""
    return _QUOTED.sub(lambda match: job if match[2] == "JOB" else other.format(match[2]), text)


def _js_end(call: Call) -> str:
    check = "if (!answer.ok) throw new Error(await answer.text());\n"
    if call.sample.keeps:
        return f'{check}await writeFile("{call.sample.keeps}", Buffer.from(await answer.arrayBuffer()));\n'
    if call.sample.is_stream:
        pieces = "answer.body.pipeThrough(new TextDecoderStream())"
        return f"{check}for await (const piece of {pieces}) console.log(piece);\n"
    return f"{check}console.log(await answer.json());\n"

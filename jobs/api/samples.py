"""The examples of the document with curl, in Python and in JavaScript: of one call each, so that none can differ."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from core.api import Sample

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

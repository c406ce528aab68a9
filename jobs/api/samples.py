"""The curl examples of `documents` in Python and JavaScript, made of the same commands, so that none can differ."""

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import Any, Final

_COMMAND: Final = re.compile(r"^    (curl (?:.*\\\n)*.*)$", re.MULTILINE)
_VARIABLE: Final = re.compile(r"'?\$([A-Z]+)'?")
_VALUED: Final = {"-X", "-H", "-d", "--data-binary", "-o"}


@dataclass(slots=True, kw_only=True)
class Call:
    """What a curl command sends. Texts hold variables as `$NAME`; `file` is sent as it is, `output` kept."""

    url: str = ""
    method: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    file: str = ""
    output: str = ""
    is_stream: bool = False


def with_samples(description: str) -> str:
    """The description, with its first curl example in Python and JavaScript at its end; as it is without one."""
    match = _COMMAND.search(description)
    if match is None:
        return description
    call = parsed(match[1])
    return (
        f"{description.rstrip()}\n\n"
        f"In Python, with httpx:\n\n```python\n{python(call)}```\n\n"
        f"In JavaScript:\n\n```javascript\n{javascript(call)}```\n"
    )


def parsed(command: str) -> Call:
    """The call that a curl command of `documents` makes. Raises ValueError for an option that none of them has."""
    call = Call()
    words = iter(shlex.split(_kept(command.replace("\\\n", " ")))[1:])
    for word in words:
        if word in _VALUED:
            _take(call, word, next(words))
        elif word.startswith("$FARM"):
            call.url = word
        elif word in {"-sS", "-sSN"}:
            call.is_stream = word.endswith("N")
        else:
            raise ValueError(f"{word!r} in {command!r}")
    call.method = call.method or ("GET" if call.body is None and not call.file else "POST")
    return call


def python(call: Call) -> str:
    """A program that makes this call, with its variables from the environment."""
    arguments = [f"{_python_text(call.url)},"]
    if call.headers:
        headers = ", ".join(f'"{name}": {_python_text(value)}' for name, value in call.headers.items())
        arguments.append(f"headers={{{headers}}},")
    if call.body is not None:
        arguments.append(f"json={_python_value(_json(call.body))},")
    if call.file:
        arguments.append(f'content=open("{call.file}", "rb").read(),')
    inner = "\n".join(f"    {argument}" for argument in arguments)
    if call.is_stream:
        lines = f'with httpx.stream(\n    "{call.method}",\n{inner}\n    timeout=None,\n) as answer:\n'
        return f"{_IMPORTS}{lines}    for line in answer.iter_lines():\n        print(line)\n"
    last = f'open("{call.output}", "wb").write(answer.content)' if call.output else "print(answer.json())"
    timeout = "    timeout=60,\n"
    return f"{_IMPORTS}answer = httpx.{call.method.lower()}(\n{inner}\n{timeout})\nanswer.raise_for_status()\n{last}\n"


def javascript(call: Call) -> str:
    """A module that makes this call, with its variables from the environment (Node.js, Deno, Bun)."""
    options = [f'method: "{call.method}",']
    if call.headers or call.body is not None:
        headers = dict(call.headers)
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        pairs = ", ".join(f'"{name}": {_js_text(value)}' for name, value in headers.items())
        options.append(f"headers: {{ {pairs} }},")
    if call.body is not None:
        options.append(f"body: JSON.stringify({_js_value(_json(call.body))}),")
    if call.file:
        options.append(f'body: await readFile("{call.file}"),')
    inner = "\n".join(f"  {option}" for option in options)
    begin = 'import { readFile } from "node:fs/promises";\n' if call.file else ""
    begin += 'import { writeFile } from "node:fs/promises";\n' if call.output else ""
    begin += f'import process from "node:process";\n\nconst {{ {", ".join(_names(call))} }} = process.env;\n'
    return f"{begin}const answer = await fetch({_js_text(call.url)}, {{\n{inner}\n}});\n{_js_end(call)}"


_IMPORTS: Final = "import os\n\nimport httpx\n\n"


def _kept(command: str) -> str:
    """The command with its variables outside of quotes as they are inside: shlex would keep the quotes apart."""
    return re.sub(r"'\"?\$([A-Z]+)\"?'", r"$\1", command)


def _take(call: Call, option: str, value: str) -> None:
    match option:
        case "-X":
            call.method = value
        case "-H":
            name, _, content = value.partition(": ")
            if name != "Content-Type":
                call.headers[name] = content
        case "-d":
            call.body = value
        case "--data-binary":
            call.file = value.removeprefix("@")
        case _:
            call.output = value


def _json(body: str) -> Any:
    """The JSON of a body, where a bare variable is a text that names it."""
    return json.loads(re.sub(r"(: )(\$[A-Z]+)", r'\1"\2"', body))


def _names(call: Call) -> list[str]:
    texts = [call.url, *call.headers.values(), call.body or ""]
    return list(dict.fromkeys(_VARIABLE.findall(" ".join(texts))))


def _python_text(text: str) -> str:
    filled = re.sub(r"\$([A-Z]+)", r"{os.environ['\1']}", text)
    return f'{"f" if filled != text else ""}"{filled}"'


def _python_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{name}": {_python_value(each)}' for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_python_value, value)) + "]"
    if not isinstance(value, str):
        return repr(value)
    if value == "$JOB":
        return 'int(os.environ["JOB"])'
    return f'os.environ["{value[1:]}"]' if value.startswith("$") else json.dumps(value, ensure_ascii=False)


def _js_text(text: str) -> str:
    filled = re.sub(r"\$([A-Z]+)", r"${\1}", text)
    return f"`{filled}`" if filled != text else json.dumps(text)


def _js_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name}: {_js_value(each)}" for name, each in value.items()) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_js_value, value)) + "]"
    if value == "$JOB":
        return "Number(JOB)"
    return value[1:] if isinstance(value, str) and value.startswith("$") else json.dumps(value, ensure_ascii=False)


def _js_end(call: Call) -> str:
    check = "if (!answer.ok) throw new Error(await answer.text());\n"
    if call.output:
        return f'{check}await writeFile("{call.output}", Buffer.from(await answer.arrayBuffer()));\n'
    if call.is_stream:
        pieces = "answer.body.pipeThrough(new TextDecoderStream())"
        return f"{check}for await (const piece of {pieces}) console.log(piece);\n"
    return f"{check}console.log(await answer.json());\n"

"""Where settings come from: the environment, an environment file below it, and files that hold one secret each.

`load` is called once by jobfarm.settings, so every command and server has it (docs/adr/0068).
"""

import os
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Final

from jobfarm.environment import file, misspelled, secret_files, table
from jobfarm.environment.secret_files import pair
from jobfarm.environment.table import Variable
from jobfarm.placeholders import complaints as placeholders

__all__ = ["EXAMPLES", "fill", "load", "read"]

# Of a farm that is tried out: `make run`, `manage.py start` and the tests, where JOBFARM_APPS is not set.
EXAMPLES: Final = "examples.chat,examples.imagegame"


def load() -> Mapping[str, Any]:
    """Return the value of every variable in `table`, by its name.

    Fills os.environ from the file and the secrets' files, so that processes started from here, which may not be able
    to read those, have the same settings. Ends the process with one sentence for each mistake, and code 1.
    """
    if "pytest" in sys.modules:  # tests read no file of the machine that they run on, nor do their processes
        os.environ.setdefault(file.VARIABLE, "")
    contents = file.find(os.environ)
    fill(os.environ, contents.values)
    if _is_for_trying_out():
        os.environ.setdefault("JOBFARM_APPS", EXAMPLES)
    unreadable = secret_files.resolve(os.environ)
    values, wrong = read(os.environ)
    for warning in misspelled.warnings(os.environ, contents.values, values):
        sys.stderr.write(f"{warning}\n")
    if mistakes := [*contents.complaints, *unreadable, *wrong, *placeholders(os.environ)]:
        sys.exit("\n".join(mistakes))
    return values


def read(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of all variables in this environment, and a sentence for each that is wrong.

    One that is empty counts as not given.
    """
    values, wrong = _read(environ, table.VARIABLES)
    more, wrong_too = _read(environ, table.of_apps(values.get("JOBFARM_APPS", ())))
    values |= more
    wrong += wrong_too
    if environ.get("DATABASE_DIRECT_URL") and not environ.get("DATABASE_URL"):
        wrong.append("DATABASE_DIRECT_URL is set without DATABASE_URL, past whose pooler it goes: set both or neither.")
    if values.get("EMAIL_USE_TLS") and values.get("EMAIL_USE_SSL"):
        wrong.append("EMAIL_USE_TLS and EMAIL_USE_SSL are both set: a mail server is spoken to in one of these ways.")
    return values, wrong


def _read(environ: Mapping[str, str], variables: Iterable[Variable]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    wrong = []
    for variable in variables:
        raw = environ.get(variable.name, "")
        text = raw if variable.is_secret else raw.strip()
        try:
            values[variable.name] = variable.read(variable.name, text) if text.strip() else variable.default
        except ValueError as error:
            wrong.append(str(error))
    return values, wrong


def _is_for_trying_out() -> bool:
    return bool({"start", "--with-worker"} & set(sys.argv[1:])) or "pytest" in sys.modules


def fill(environ: MutableMapping[str, str], values: Mapping[str, str]) -> None:
    """What the real environment says of a variable, by value or by file, wins over both lines of the file."""
    present = set(environ)
    for name, value in values.items():
        if not present & pair(name):
            environ[name] = value
    if "PYTHONPATH" in values and "PYTHONPATH" not in present:  # Python has read its own before this
        sys.path += [folder for folder in values["PYTHONPATH"].split(os.pathsep) if folder not in sys.path]

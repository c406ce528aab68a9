"""Where settings come from: the environment, an environment file below it, and files that hold one secret each.

`load` is called once by jobfarm.settings, so every command and server has it (docs/adr/0068).
"""

import difflib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final

from jobfarm.environment import files, table
from jobfarm.environment.files import complaints as placeholders, names, pair
from jobfarm.environment.table import VARIABLES, Variable

# Of a farm that is tried out: `make run`, `manage.py start` and the tests, where JOBFARM_APPS is not set.
EXAMPLES: Final = "examples.chat,examples.imagegame,examples.translation"

_EVERYBODY: Final = {"*", "0.0.0.0/0", "::/0"}  # of FORWARDED_ALLOW_IPS


def load() -> Mapping[str, Any]:
    """Return the value of every variable in `table`, by its name.

    Fills os.environ from the file and the secrets' files, so that processes started from here, which may not be able
    to read those, have the same settings. Ends the process with one sentence for each mistake, and code 1.
    """
    if "pytest" in sys.modules:  # tests read no file of the machine that they run on, nor do their processes
        os.environ.setdefault(files.VARIABLE, "")
    contents = files.find(os.environ)
    fill(os.environ, contents.values)
    if {"start", "--with-worker"} & set(sys.argv[1:]) or "pytest" in sys.modules:  # it is tried out
        os.environ.setdefault("JOBFARM_APPS", EXAMPLES)
    unreadable = files.resolve(os.environ)
    values, wrong = read(os.environ)
    for warning in warnings(os.environ, contents.values, values):
        sys.stderr.write(f"{warning}\n")
    if mistakes := [*contents.complaints, *unreadable, *wrong, *placeholders(os.environ)]:
        sys.exit("\n".join(mistakes))
    return values


def read(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of all variables in this environment, and a sentence for each that is wrong. One that is empty
    counts as not given."""
    values, wrong = _read(environ, table.VARIABLES)
    more, wrong_too = _read(environ, table.of_apps(values.get("JOBFARM_APPS", ())))
    values |= more
    wrong += wrong_too
    if environ.get("DATABASE_DIRECT_URL") and not environ.get("DATABASE_URL"):
        wrong.append("DATABASE_DIRECT_URL is set without DATABASE_URL, past whose pooler it goes: set both or neither.")
    if values.get("EMAIL_USE_TLS") and values.get("EMAIL_USE_SSL"):
        wrong.append("EMAIL_USE_TLS and EMAIL_USE_SSL are both set: a mail server is spoken to in one of these ways.")
    if values.get("OIDC_ISSUER") and not values.get("OIDC_CLIENT_ID"):
        wrong.append("OIDC_ISSUER is set without OIDC_CLIENT_ID, as which that provider knows the farm: set both.")
    believed = {part.strip() for part in environ.get("FORWARDED_ALLOW_IPS", "").split(",")}
    if values.get("REMOTE_USER_HEADER") and believed & _EVERYBODY:
        wrong.append(
            "REMOTE_USER_HEADER is set, and FORWARDED_ALLOW_IPS believes everybody: whoever sends the header would be "
            "whom it names. Give the address of the proxy."
        )
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


def fill(environ: MutableMapping[str, str], values: Mapping[str, str]) -> None:
    """What the real environment says of a variable, by value or by file, wins over both lines of the file."""
    present = set(environ)
    for name, value in values.items():
        if not present & pair(name):
            environ[name] = value
    if "PYTHONPATH" in values and "PYTHONPATH" not in present:  # Python has read its own before this
        sys.path += [folder for folder in values["PYTHONPATH"].split(os.pathsep) if folder not in sys.path]


_PREFIXES: Final = ("JOBFARM_", "OUTBOX_", "SCHEDULING_", "WEBHOOKS_")
# 0 to 1, of difflib: one letter too many or too few in a name of ten is 0.95; JOBFARM_RETENTION is 0.87 of itself with
# _DAYS; names of different settings, such as _PER_JOB and _PER_OWNER, are 0.8 to 0.93, and known.
_ALIKE: Final = 0.85
# Read by workers and clients (docs/worker.md, docs/client.md), by our tests, and by what stands beside a farm.
OF_OTHERS: Final = frozenset({
    "JOBFARM_KEY", "JOBFARM_TOKEN", "JOBFARM_LLM_URL", "JOBFARM_LLM_KEY", "JOBFARM_LLM_MODEL",
    "JOBFARM_IMAGE_URL", "JOBFARM_IMAGE_KEY", "JOBFARM_IMAGE_MODEL", "JOBFARM_MODEL_EXAMPLES", "JOBFARM_FUZZ_EXAMPLES",
    "JOBFARM_TEST_DATABASE", "JOBFARM_SITE_PYTHON",
    "FORWARDED_ALLOW_IPS", "POSTGRES_PASSWORD", "FARM_ADDRESS", "PYTHONPATH",
})  # fmt: skip


def warnings(environ: Iterable[str], of_the_file: Mapping[str, str], of_apps: Iterable[str] = ()) -> Iterator[str]:
    """Yield a sentence for each name near a known one: any in the environment file, and of the environment those that
    begin as ours do."""
    known = {variable.name for variable in VARIABLES} | {*of_apps} | names() | {files.VARIABLE}
    ours = {name for name in environ if name.upper().startswith(_PREFIXES)} | set(of_the_file)
    for name in sorted(ours - known - OF_OTHERS):
        if near := difflib.get_close_matches(name.upper(), known, n=1, cutoff=_ALIKE):
            yield f"{name} is not a setting, and is not read; did you mean {near[0]}?"

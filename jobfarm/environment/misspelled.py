"""Variables that nobody reads and that look like one that is read."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from jobfarm.environment import file
from jobfarm.environment.secret_files import names
from jobfarm.environment.table import VARIABLES

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
    known = {variable.name for variable in VARIABLES} | {*of_apps} | names() | {file.VARIABLE}
    ours = {name for name in environ if name.upper().startswith(_PREFIXES)} | set(of_the_file)
    for name in sorted(ours - known - OF_OTHERS):
        if near := difflib.get_close_matches(name.upper(), known, n=1, cutoff=_ALIKE):
            yield f"{name} is not a setting, and is not read; did you mean {near[0]}?"

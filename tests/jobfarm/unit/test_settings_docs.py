"""docs/settings.md is what the table of variables says."""

import re

from jobfarm import environment
from jobfarm.environment import EXAMPLES, files, table
from scripts import generated
from tests.architecture.test_tidiness import tracked

VARIABLES = (*table.VARIABLES, *table.of_apps(EXAMPLES.split(",")))


def test_is_what_the_generator_writes() -> None:
    assert generated.SETTINGS.read_text() == generated.settings(), "make docs"


def test_has_each_variable_once_with_its_default() -> None:
    rows = re.findall(r"^- `(\w+)`(?: \((?:\*secret\*)?(?:; )?(.*?)\))?: ", generated.settings(), re.MULTILINE)
    assert [name for name, _ in rows] == [variable.name for variable in VARIABLES]
    shown = dict(rows)
    assert shown["JOBFARM_LEASE_S"] == "60 s"
    assert shown["JOBFARM_FILE_BYTES_IN_ALL"] == "500,000,000,000 bytes"
    assert shown["SECURE_COOKIES"] == "0"
    assert shown["ALLOWED_HOSTS"] == "`127.0.0.1,localhost,[::1]`"
    assert (
        shown["JOBFARM_DATA"] == "`var/` in a checkout; else `~/.local/share/jobfarm`, as root `/var/lib/jobfarm-files`"
    )


def test_no_page_names_a_variable_that_is_none() -> None:
    known = {variable.name for variable in VARIABLES} | files.names() | environment.OF_OTHERS
    pages = [*tracked("docs/*.md"), generated.ROOT / "README.md"]
    named = {
        name
        for path in pages
        for name in re.findall(r"`((?:JOBFARM|SCHEDULING|WEBHOOKS)_[A-Z_]+[A-Z])[`=]", path.read_text())
    }
    assert named - known == {files.VARIABLE}

"""Where a farm keeps its data if nobody says where: never beside code that pip installs and removes."""

import os
from pathlib import Path
from typing import Final

from core.commands import CODE, IS_CHECKOUT

# Root's own folders are closed to the account that the web process runs as; some accounts have none.
_OF_ALL: Final = Path("/var/lib/jobfarm-files")


def data() -> Path:
    """Return `var` in a checkout, else a folder of whoever starts the farm, by the XDG Base Directory Specification."""
    if IS_CHECKOUT:
        return CODE / "var"
    # "All paths set in these environment variables must be absolute": others are ignored.
    bases = (os.environ.get("XDG_DATA_HOME", ""), os.path.expanduser("~/.local/share"))
    base = next(filter(os.path.isabs, bases), "")
    return Path(base, "jobfarm") if base and os.geteuid() != 0 else _OF_ALL

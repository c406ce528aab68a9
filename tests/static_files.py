"""Static files are looked for once in a run: each client of a test is a site of its own to Django, and would walk
through every folder of them anew, in 20 ms."""

from typing import Any

from jobfarm.middleware import StaticFiles


def look_once() -> None:
    """Let all who look for the same files have what the first one found."""
    look, found = StaticFiles.add_files_from_finders, dict[tuple[Any, ...], dict[str, Any]]()

    def remember(self: StaticFiles) -> None:
        given = (self.static_root, self.static_prefix, self.max_age)
        if given not in found:
            look(self)
            found[given] = dict(self.files)
        self.files.update(found[given])

    StaticFiles.add_files_from_finders = remember

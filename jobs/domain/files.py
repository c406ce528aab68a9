"""Which result files are pictures to look at, and which of them matter once a job is over."""

from collections.abc import Iterable

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
PREVIEW = "preview."  # how a worker names what only shows how far it is


def pictures(names: Iterable[str], *, has_ended: bool) -> list[str]:
    """Those of these files that a page shows as pictures, in their order.

    Previews are shown while a job runs; once it has ended they give way to the picture, if there is one.
    """
    matches = [name for name in names if name.lower().endswith(PICTURES)]
    finished = [name for name in matches if not name.startswith(PREVIEW)]
    return finished if has_ended and finished else matches

"""Reads for finding files that no job knows."""

from collections.abc import Sequence

from jobs.models import ResultFile


def unknown_files(names: Sequence[str]) -> list[str]:
    """Those of these names in the storage that no result file has, in their order."""
    known = set(ResultFile.objects.filter(stored_as__in=names).values_list("stored_as", flat=True))
    return [name for name in names if name not in known]

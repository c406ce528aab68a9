"""What `make test-fast` runs: nothing that waits for a browser or for a process that is killed; and what a target for
one folder does: all of it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SLOW = re.compile(
    r"playwright|forkserver|tests\.(servers|browser|chaos\.farm)|\bSIG(KILL|STOP)\b|\bkill\(|\.terminate\("
)


def _listed(name: str) -> list[str]:
    found = re.search(rf"^{name} := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found, f"the Makefile says {name}"
    return found[1].split()


def _files(folders: list[str], but: list[str]) -> list[Path]:
    return [
        path
        for folder in folders
        for path in sorted(ROOT.glob(f"{folder}/**/*.py"))
        if path != Path(__file__) and str(path.relative_to(ROOT)) not in but
    ]


def test_the_fast_tests_start_no_browser_and_kill_no_process() -> None:
    files = _files(_listed("FAST"), _listed("NOT_FAST"))
    assert len(files) > 80
    slow = {str(path.relative_to(ROOT)): found[0] for path in files if (found := SLOW.search(path.read_text()))}
    assert slow == {}, "list it in the Makefile under NOT_FAST, or move it"


def test_what_the_fast_tests_leave_out_is_there_and_has_to_be_left_out() -> None:
    out = [ROOT / name for name in _listed("NOT_FAST")]
    assert [path for path in out if not path.exists()] == []
    assert all(SLOW.search(path.read_text()) for path in out)


def test_a_target_for_one_folder_leaves_none_of_its_landing_tests_out() -> None:
    lines = (ROOT / "Makefile").read_text().replace("\\\n", "").splitlines()
    named = [(folder, line) for line in lines for folder in re.findall(r"-m pytest .*\s(tests/\w+)$", line)]
    marked = [line for folder, line in named if any("mark.landing" in p.read_text() for p in _files([folder], []))]
    assert marked
    assert [line for line in marked if "-m ''" not in line] == []

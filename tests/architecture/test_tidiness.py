"""Rules about the sources themselves that no linter has."""

import re
import subprocess
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).parents[2]
LONGEST_FILE = 400


def tracked(*patterns: str) -> list[Path]:
    """The files of the tree that match, those that are not committed yet among them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def test_no_file_is_longer_than_four_hundred_lines() -> None:
    sources = [path for path in tracked("*.py", "*.js", "*.css", "*.html", "*.sql") if "migrations" not in path.parts]
    long = {
        str(path.relative_to(ROOT)): n for path in sources if (n := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert long == {}, "split what does two things"


def test_every_statement_file_opens_with_a_caption() -> None:
    bare = [path.name for path in tracked("*.sql") if not path.read_text().startswith("-- ")]
    assert bare == [], "the first lines of an .sql file say what it does and why"


def test_statements_live_in_queries_and_sql_files() -> None:
    allowed = {"queries", "sql", "migrations", "postgres", "live", "tests", "benchmarks"}
    speaks_sql = re.compile(r"""["'](SELECT|INSERT INTO|UPDATE|DELETE FROM) """)
    found = [
        str(path.relative_to(ROOT))
        for path in tracked("*.py")
        if not allowed & set(path.relative_to(ROOT).parts)
        and path.stem not in allowed
        and speaks_sql.search(path.read_text())
    ]
    assert found == [], "put statements into queries or sql/"


def test_nobody_waits_with_what_knows_no_descriptor_from_1024_on() -> None:
    allowed = {"tests", "benchmarks"}
    found = [
        str(path.relative_to(ROOT))
        for path in tracked("*.py")
        if not allowed & set(path.relative_to(ROOT).parts)
        and re.search(r"\bselect\.select\(|from select import|SelectSelector", path.read_text())
    ]
    assert found == [], "postgres.descriptors.ready waits for any"


def test_what_is_done_after_a_commit_has_a_name_that_django_can_log() -> None:
    nameless = re.compile(r"on_commit\(\s*partial\(")
    found = [str(path.relative_to(ROOT)) for path in tracked("*.py") if nameless.search(path.read_text())]
    assert found == [], "a robust hook that fails is logged by its __qualname__, and a partial has none: use a lambda"


def test_every_requirement_is_pinned_exactly_and_says_what_for() -> None:
    lines = [
        line for name in ("requirements.txt", "requirements-dev.txt") for line in (ROOT / name).read_text().splitlines()
    ]
    pins = [line for line in lines if line.strip() and not line.startswith(("#", "-"))]
    assert [line for line in pins if not re.match(r"[\w.\[\],-]+==\S+", line)] == []


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_nothing_says_to_install_by_a_name_that_is_nobodys() -> None:
    """On PyPI whoever registers it gets to run there what he likes: a checkout or a wheel's path is named."""
    by_name = re.compile(r"pip3? install\b[^\n]*?\s['\"]?jobfarm(?![\w./-])")
    kinds = (
        "*.py",
        "*.md",
        "*.toml",
        "*.txt",
        "*.html",
        "*.yaml",
        "*.yml",
        "*.sh",
        "Makefile",
        "Dockerfile",
        "Procfile",
        "scripts/*",
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in tracked(*kinds)
        for line in path.read_text().splitlines()
        if by_name.search(line)
    ]
    assert found == []


def test_where_a_job_stands_is_asked_of_its_model() -> None:
    """`Job.objects.waiting()` and the conditions beside it: a query that names the columns would be one more place."""
    names_columns = re.compile(
        r"Job\.objects[^\n]*[(, ](status|ended_at|lease_secret)(__\w+)?=|\bstatus__in=sorted\((LIVE|ENDED)"
    )
    found = [
        f"{path.relative_to(ROOT)}:{n}"
        for path in tracked("jobs/**/*.py", "jobfarm/**/*.py", "metering/**/*.py", "tests/**/*.py")
        if "migrations" not in path.parts and path.name not in {"work.py", "test_constraints.py", "samples.py"}
        for n, line in enumerate(path.read_text().splitlines(), start=1)
        if names_columns.search(line)
    ]
    assert found == [], "waiting(), running(), living(), ended(), with_status()"

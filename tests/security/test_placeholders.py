"""Secrets that were copied from the example: a farm with a database of its own does not start with them."""

import os
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from jobfarm.environment import files
from tests import forkserver
from tests.looped import looped

OWN = "postgresql://jobfarm:8gZ9wq@127.0.0.1:1/jobfarm"
GOOD = {
    "SECRET_KEY": "q3vX7hZk0uJ2mB9dT5sW8yR1aP4cF6eG",
    "JOBFARM_METRICS_TOKEN": "q3vX7hZk0uJ2mB9d",
    "DATABASE_URL": OWN,
}
EXAMPLE = Path(settings.BASE_DIR) / "deploy" / "environment"
PLACEHOLDERS = [
    ("SECRET_KEY", "change-me"),
    ("SECRET_KEY", "Change_Me please, whoever reads this line of the file"),
    ("SECRET_KEY", "django-insecure-q3vX7hZk0uJ2mB9dT5sW8yR1aP4cF6eG"),
    ("SECRET_KEY", "placeholder-q3vX7hZk0uJ2mB9dT5sW8yR1aP4cF6eG"),
    ("SECRET_KEY", "replace-me-q3vX7hZk0uJ2mB9dT5sW8yR1aP4cF6eG"),
    ("SECRET_KEY", "q3vX7hZk0uJ2mB9dT5sW8yR1aP4cF6e"),
    ("SECRET_KEY", "x7hZ" * 20),
    ("JOBFARM_METRICS_TOKEN", "change-me"),
    ("JOBFARM_METRICS_TOKEN", "q3vX7hZk0uJ2mB9"),
    ("DATABASE_URL", "postgresql://jobfarm:change-me@127.0.0.1:1/jobfarm"),
    ("DATABASE_DIRECT_URL", "postgresql://jobfarm:change%2Dme@127.0.0.1:1/jobfarm"),
]


def started(*command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {
        name: os.environ[name] for name in ("PATH", "HOME", "JOBFARM_DATA", "JOBFARM_ENV_FILE") if name in os.environ
    }
    return forkserver.run(command, env=inherited | environment, timeout=60)


@looped(("name", "value"), PLACEHOLDERS)
def test_are_refused_with_a_sentence_that_names_the_setting(name: str, value: str) -> None:
    (sentence,) = files.complaints(GOOD | {name: value})
    assert sentence.startswith(f"{name} ")
    assert value not in sentence


@pytest.mark.parametrize(("name", "value"), PLACEHOLDERS[:-2])
def test_do_not_matter_to_the_embedded_database(name: str, value: str) -> None:
    assert files.complaints({name: value}) == []


@pytest.mark.parametrize(
    "environment",
    [
        GOOD,
        GOOD | {"SECRET_KEY": "x7hZk" * 16},
        {"DATABASE_URL": OWN},
        {"DATABASE_URL": "nonsense"},
        {"DATABASE_URL": "http://[bad"},
    ],
)
def test_what_was_chosen_is_taken(environment: dict[str, str]) -> None:
    assert files.complaints(environment) == []


def test_of_the_example_environment_are_all_found() -> None:
    lines = (line.partition("=") for line in EXAMPLE.read_text().splitlines() if "change-me" in line and line[0] != "#")
    secrets = {name: value for name, _, value in lines if name != "POSTGRES_PASSWORD"}
    assert len(secrets) == 4
    for name, value in secrets.items():
        (sentence,) = files.complaints(GOOD | {name: value})
        assert sentence.startswith(name)


@pytest.mark.parametrize(
    "command",
    [("manage.py", "web"), ("manage.py", "janitor", "--skip-checks"), ("-m", "uvicorn", "jobfarm.asgi:application")],
)
def test_end_whatever_is_started_with_one_sentence(command: tuple[str, ...]) -> None:
    ended = started(*command, **(GOOD | {"SECRET_KEY": "change-me"}))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "SECRET_KEY holds the placeholder of an example: put a random value in its place (openssl rand -base64 48).\n"
    )

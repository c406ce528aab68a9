"""The hardening settings that docs/security.md names, as an operator sets them."""

import os
import re
import secrets

from django.conf import settings

from tests import documented, forkserver


def test_the_documented_settings_pass_djangos_deployment_checks() -> None:
    """As they stand in the docs, with a host's name and a key put in."""
    block = documented.block("security.md", "export SECRET_KEY=")
    exported = dict(re.findall(r"^export (\w+)=(\S+)", block, re.MULTILINE))
    assert exported.keys() >= {"SECRET_KEY", "ALLOWED_HOSTS", "SECURE_COOKIES", "SECURE_HSTS_SECONDS"}
    exported["SECRET_KEY"] = secrets.token_urlsafe(50)
    inherited = {
        name: os.environ[name] for name in ("PATH", "HOME", "JOBFARM_DATA", "JOBFARM_ENV_FILE") if name in os.environ
    }
    command = ["manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    checked = forkserver.run(command, env=inherited | exported, timeout=120)
    assert (checked.returncode, checked.stdout.strip()) == (0, "System check identified no issues (0 silenced)."), (
        checked.stderr
    )


def test_debugging_is_off_unless_asked_for() -> None:
    assert settings.DEBUG is False
    assert settings.ALLOWED_HOSTS != ["*"]

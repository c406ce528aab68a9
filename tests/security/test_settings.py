"""The hardening settings that docs/security.md names, as an operator sets them."""

import os
import re
import secrets
from pathlib import Path

from django.conf import settings

from tests import forkserver

PAGE = Path(settings.BASE_DIR) / "docs" / "security.md"


def test_the_documented_settings_pass_djangos_deployment_checks() -> None:
    """As they stand in the docs, with a host's name and a key put in."""
    block = re.search(r"```sh\n(export SECRET_KEY=.*?)```", PAGE.read_text(), re.DOTALL)
    assert block, "docs/security.md shows the settings of a farm behind TLS"
    documented = dict(re.findall(r"^export (\w+)=(\S+)", block[1], re.MULTILINE))
    assert documented.keys() >= {"SECRET_KEY", "ALLOWED_HOSTS", "SECURE_COOKIES", "SECURE_HSTS_SECONDS"}
    documented["SECRET_KEY"] = secrets.token_urlsafe(50)
    inherited = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "JOBFARM_DATA", "JOBFARM_ENV_FILE")
        if name in os.environ
    }
    command = ["manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    checked = forkserver.run(command, env=inherited | documented, timeout=120)
    assert (checked.returncode, checked.stdout.strip()) == (
        0,
        "System check identified no issues (0 silenced).",
    ), checked.stderr


def test_debugging_is_off_unless_asked_for() -> None:
    assert settings.DEBUG is False
    assert settings.ALLOWED_HOSTS != ["*"]

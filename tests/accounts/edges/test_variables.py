"""What the variables of single sign-on make of allauth's settings, in a process that reads them anew."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings

READ = """
import json
from django.conf import settings
print(json.dumps({
    "provider": settings.SOCIALACCOUNT_PROVIDERS["openid_connect"], "apps": settings.INSTALLED_APPS,
    "map": settings.OIDC_GROUP_MAP, "claim": settings.OIDC_GROUPS_CLAIM, "passkeys": settings.MFA_PASSKEY_LOGIN_ENABLED,
}))
"""
OF_PROVIDER = {
    "OIDC_ISSUER": "https://login.example.org/team/", "OIDC_CLIENT_ID": "farm", "OIDC_NAME": "Team",
    "OIDC_USERINFO": "0", "OIDC_GROUPS_CLAIM": "roles", "OIDC_GROUP_MAP": "ml-team:operators,heads:staff",
    "SSO_ONLY": "1",
}  # fmt: skip


def read(**variables: str) -> Any:
    """What a process of the farm has with these variables."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "jobfarm.settings", **OF_PROVIDER, **variables}
    command = [sys.executable, "-c", READ]
    done = subprocess.run(command, env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_are_an_openid_provider_of_allauth() -> None:
    found = read(OIDC_CLIENT_SECRET="s3cret")
    assert found["provider"]["APPS"] == [{
        "provider_id": "sso", "client_id": "farm", "secret": "s3cret", "name": "Team",
        "settings": {"server_url": "https://login.example.org/team", "fetch_userinfo": False},
    }]  # fmt: skip
    assert "allauth.socialaccount.providers.openid_connect" in found["apps"]
    assert (found["map"], found["claim"]) == ([["ml-team", "operators"], ["heads", "staff"]], "roles")
    assert found["passkeys"] is False


def test_have_the_secret_in_a_file_too_beside_providers_of_allauths_own_form(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of-a-file\n")
    other = {"provider_id": "other", "name": "Other", "client_id": "x", "settings": {"server_url": "https://x.example"}}
    others = json.dumps({"openid_connect": {"APPS": [other]}})
    found = read(OIDC_CLIENT_SECRET_FILE=str(tmp_path / "secret"), SOCIALACCOUNT_PROVIDERS=others)
    assert [(app["name"], app.get("secret")) for app in found["provider"]["APPS"]] == [
        ("Other", None),
        ("Team", "of-a-file"),
    ]

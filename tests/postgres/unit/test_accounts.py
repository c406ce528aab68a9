"""Who runs root's server where no user can be made for it. The usual ways are in the integration tests."""

import pwd
from pathlib import Path

import pytest

from postgres.embedded import places
from postgres.embedded.places import Account
from postgres.errors import NoAccount


class TestAnAccountForRoot:
    @pytest.fixture(autouse=True)
    def _nothing_can_be_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(places, "_ACCOUNT", "no-such-user")
        monkeypatch.setattr(places, "_MAKERS", ("no-such-program", "false"))

    def test_is_a_user_that_exists_anyway(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(places, "_FALLBACKS", ("root", "no-such-user-either", "nobody"))
        nobody = pwd.getpwnam("nobody")
        assert places.account_for_root(tmp_path / "home") == Account(uid=nobody.pw_uid, gid=nobody.pw_gid)

    def test_that_cannot_be_found_is_asked_for(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(places, "_FALLBACKS", ("no-such-user-either",))
        with pytest.raises(NoAccount, match='no system user "no-such-user" could be created'):
            places.account_for_root(tmp_path / "home")

"""manage.py create_token and login_link."""

from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from accounts import operations
from accounts.errors import AccountsError
from accounts.models import ApiToken
from core import commands
from jobfarm import processes
from postgres.embedded.places import Lock
from tests import forkserver

pytestmark = pytest.mark.django_db


def printed(*command: str) -> tuple[str, str]:
    """What a command says on stdout and on stderr."""
    out, err = StringIO(), StringIO()
    call_command(*command, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


class TestCreateToken:
    def test_prints_the_key_alone(self, ada: User) -> None:
        out, err = printed("create_token", "ada", "--name", "ci")
        assert operations.token(out.removesuffix("\n")).user == ada
        assert "ci" in err
        assert ApiToken.objects.get().name == "ci"

    def test_makes_one_that_may_what_is_named_for_so_many_days(self, ada: User) -> None:
        printed("create_token", "ada", "--scope", "read", "--scope", "submit", "--days", "1.5")
        token = ApiToken.objects.get()
        assert (token.scopes, token.expires_at and (token.expires_at - token.created_at).days) == ("submit read", 1)

    def test_may_be_run_again(self, ada: User) -> None:
        keys = {printed("create_token", "ada")[0] for _ in range(2)}
        assert len(keys) == 2

    @pytest.mark.parametrize(
        ("command", "sentence"),
        [
            (["create_token", "eve"], "There is no user 'eve'"),
            (["create_token", "ada", "--name", ""], "A token needs a name"),
            (["create_token", "ada", "--days", "0"], "more than 0 and at most 3650 days"),
            (["create_token", "ada", "--scope", "all"], "invalid choice"),
            (["create_token", "bob"], "bob may not log in"),
            (["login_link", "bob"], "bob may not log in"),
            (["login_link", "ada", "--minutes", "0"], "more than 0 minutes"),
            (["login_link", "ada", "--minutes", "nan"], "more than 0 minutes"),
            (["login_link", "ada", "--minutes", "1e300"], "at most 43200"),
        ],
    )
    def test_and_login_link_refuse_in_one_sentence(self, ada: User, command: list[str], sentence: str) -> None:
        User.objects.create_user("bob", is_active=False)
        with pytest.raises((CommandError, AccountsError), match=sentence):
            printed(*command)
        assert not ApiToken.objects.exists()

    def test_says_in_one_sentence_which_database_does_not_answer(self, tmp_path: Path) -> None:
        command = ["manage.py", "create_token", "ada"]
        environment = {
            "DATABASE_URL": "postgresql://ada:secret-word@127.0.0.1:1/farm",
            "JOBFARM_DATA": str(tmp_path),
            "DJANGO_SETTINGS_MODULE": "jobfarm.settings",
        }
        ended = forkserver.run(command, env=environment, timeout=60)
        assert ended.returncode == 1
        assert "127.0.0.1, port 1" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert "secret-word" not in ended.stderr + ended.stdout


class TestLoginLink:
    def test_prints_a_link_that_logs_in(self, client: Client, ada: User) -> None:
        out, err = printed("login_link", "ada", "--url", "https://farm.example/")
        path = out.strip().removeprefix("https://farm.example")
        client.post(path)
        assert client.session[SESSION_KEY] == str(ada.pk)
        assert "ada" in err

    def test_names_the_address_of_the_farm_that_runs_and_of_none_that_was_killed(
        self, ada: User, settings: Settings, tmp_path: Path
    ) -> None:
        """What a killed farm had noted stayed: the link led to nobody, or to another program."""
        settings.JOBFARM_DATA = tmp_path
        usual = f"http://127.0.0.1:{settings.PORT}/"
        (tmp_path / commands.FARM_URL).write_text("http://127.0.0.1:1")
        assert printed("login_link", "ada")[0].startswith(usual)
        with processes.listening_at("http://127.0.0.1:2"):
            assert printed("login_link", "ada")[0].startswith("http://127.0.0.1:2/")
        assert printed("login_link", "ada")[0].startswith(usual)

    def test_names_it_also_where_somebody_keeps_the_note_of_a_killed_one_open_and_after_it_is_deleted(
        self, ada: User, settings: Settings, tmp_path: Path
    ) -> None:
        """Everybody may read a note, and so lock it: the next farm waited for them, and said nothing."""
        settings.JOBFARM_DATA = tmp_path
        note = tmp_path / commands.FARM_URL
        note.write_text("http://127.0.0.1:1")
        with Lock.shared(note), processes.listening_at("http://127.0.0.1:2"):
            assert printed("login_link", "ada")[0].startswith("http://127.0.0.1:2/")
            note.unlink()  # with the farm's folder, say: it ends as it would
        assert printed("login_link", "ada")[0].startswith(f"http://127.0.0.1:{settings.PORT}/")

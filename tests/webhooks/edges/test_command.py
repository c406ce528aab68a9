"""`manage.py webhooks` against a real server."""

import base64
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command

from tests import documented
from tests.servers import Server
from tests.shells import Shell
from webhooks.domain.deliveries import Source
from webhooks.models import Delivery, SandboxToken, Secret
from webhooks.sources.configs import CONFIGS


@pytest.fixture(autouse=True)
def _no_secrets(transactional_db: None) -> None:
    Secret.objects.all().delete()


def run(*words: str, **options: Any) -> list[str]:
    """The lines that it prints."""
    out = io.StringIO()
    call_command("webhooks", *words, stdout=out, **options)
    return out.getvalue().splitlines()


def write(folder: Path, document: Any) -> str:
    file = folder / "body.json"
    file.write_text(json.dumps(document))
    return str(file)


class TestSend:
    @pytest.mark.parametrize(
        ("source", "event", "document", "kept_as"),
        [
            ("github", "issues.opened", {"action": "opened", "n": 1}, "issues.opened"),
            ("confluence", "page_updated", {"page": {"id": 1}, "n": 1}, "page_updated"),
            ("stripe", "test.event", {"id": "evt_1", "type": "test.event"}, "test.event"),
            ("sandbox_hooks", "Stop", {"hook_event_name": "Stop", "session_id": "s"}, "Stop"),
        ],
    )
    def test_signs_a_file_and_posts_it(
        self, server: Server, tmp_path: Path, source: str, event: str, document: Any, kept_as: str
    ) -> None:
        run("secret", "add", source)
        file = write(tmp_path, document)
        [answer] = run("send", source, event, file, "--url", server.url)
        assert answer == ("200 {}" if source == "sandbox_hooks" else '200 {"status": "received"}')
        delivery = Delivery.objects.get()
        assert (delivery.source, delivery.event_type) == (source, kept_as)
        assert bytes(delivery.body) == Path(file).read_bytes()

    def test_under_a_given_id_is_that_delivery(self, server: Server, tmp_path: Path) -> None:
        run("secret", "add", "clerk")
        file = write(tmp_path, {"type": "test.event"})
        answers = [run("send", "clerk", "-", file, "--id", "msg_7", "--url", server.url) for _ in range(2)]
        assert answers == [['200 {"status": "received"}'], ['200 {"status": "duplicate"}']]
        assert Delivery.objects.get().delivery_id == "msg_7"

    def test_that_is_not_taken_says_so(self, server: Server, tmp_path: Path) -> None:
        file = write(tmp_path, {"type": "x"})
        with pytest.raises(CommandError, match=r"no secret yet.*webhooks secret add clerk"):
            run("send", "clerk", "x", file, "--url", server.url)
        run("secret", "add", "clerk")
        with pytest.raises(CommandError, match="cannot be read: No such file"):
            run("send", "clerk", "x", f"{file}.gone", "--url", server.url)
        with pytest.raises(CommandError, match="Nothing answers at"):
            run("send", "clerk", "x", file, "--url", "http://127.0.0.1:9")
        Path(file).write_text("no json")
        with pytest.raises(CommandError, match="The farm answered 400"):
            run("send", "clerk", "x", file, "--url", server.url)


class TestSecrets:
    def test_of_a_source_that_is_none_are_refused_with_the_names_of_those_that_are(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(CommandError, match="choose from 'clerk', 'github', "):
            run("secret", "add", "nobody")

    def test_are_made_up_and_printed_alone_on_the_last_line(self) -> None:
        first, _, secret = run("secret", "add", "clerk", "--name", "production")
        row = Secret.objects.get()
        assert first == f"clerk may sign with the secret {row.fingerprint}; it posts to /clerk-users-webhook."
        assert secret.startswith("whsec_")
        assert run("secret", "list") == [f"clerk {row.fingerprint} (production): not used yet"]

    def test_of_the_sender_are_read_from_standard_input_and_not_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("whsec_given\n"))
        [line] = run("secret", "add", "stripe", "--stdin")
        assert "given" not in line

    def test_are_rotated_and_retired(self) -> None:
        run("secret", "add", "github")
        old = Secret.objects.get()
        run("secret", "rotate", "github", "--grace", "2")
        new = Secret.objects.exclude(pk=old.pk).get()
        old.refresh_from_db()
        assert old.retired_at is not None
        assert run("secret", "list", "github") == [
            f"github {new.fingerprint}: not used yet",
            f"github {old.fingerprint}: not used yet, retires {old.retired_at:%Y-%m-%d %H:%M} UTC",
        ]
        [line] = run("secret", "retire", "github", new.fingerprint)
        assert line.startswith(f"github {new.fingerprint} opens nothing from ")
        with pytest.raises(CommandError, match=f"github has no live secret {new.fingerprint}"):
            run("secret", "retire", "github", new.fingerprint)

    def test_that_can_be_none_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("not base64!\n"))
        with pytest.raises(CommandError, match="This cannot be a secret of clerk"):
            run("secret", "add", Source.CLERK, "--stdin")


def test_tokens_of_a_sandbox_are_shown_once_and_revoked() -> None:
    _, token = run("token", "add", "box-1")
    assert token.startswith("sbx_")
    assert token not in str(SandboxToken.objects.values())
    assert run("token", "revoke", "box-1") == ["1 token of box-1 revoked."]
    with pytest.raises(CommandError, match="box-1 has no token that is live"):
        run("token", "revoke", "box-1")


def test_the_commands_of_the_documents(server: Server, tmp_path: Path) -> None:
    add, send = documented.blocks("webhooks.md", "sh")
    shell = Shell(tmp_path, checkout=True)
    secret = "whsec_" + base64.b64encode(bytes(24)).decode()
    commands = add.replace("stripe --stdin", f"stripe --stdin <<< {secret}")
    assert len(shell.follow(commands, {}).splitlines()[-1]) > 1
    assert set(Secret.objects.values_list("source", flat=True)) == {"github", "stripe"}
    assert shell.follow(f"{send.rstrip()} --url {server.url}", {}) == '200 {"status": "received"}\n'
    assert Delivery.objects.get().event_type == "issues.opened"


def test_the_hook_of_an_agent_that_the_documents_print() -> None:
    [printed] = documented.blocks("webhooks.md", "json")
    [event] = json.loads(printed)["hooks"]["PostToolUse"]
    [hook] = event["hooks"]
    assert urlsplit(hook["url"]).path == CONFIGS[Source.SANDBOX_HOOKS].path
    assert hook["headers"] == {"Authorization": "Bearer $FARM_TOKEN"}

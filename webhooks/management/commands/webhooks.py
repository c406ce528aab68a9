"""`manage.py webhooks ...`: secrets of the adapters, tokens of sandboxes, and test deliveries, from a shell."""

import sys
from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webhooks import operations
from webhooks.domain.deliveries import Source
from webhooks.errors import WebhooksError
from webhooks.operations.secrets import live_secrets
from webhooks.sources import configs


class Command(BaseCommand):
    """One word says what to do; each is a method below."""

    help = "Secrets, sandbox tokens and test deliveries of webhooks."

    def add_arguments(self, parser: ArgumentParser) -> None:
        words = parser.add_subparsers(dest="word", required=True)
        self._add_send(words.add_parser("send", help="sign a payload file and post it to this farm"))
        secret = words.add_parser("secret", help="what a source signs with").add_subparsers(
            dest="action", required=True
        )
        self._add_secret(secret)
        token = words.add_parser("token", help="bearer tokens of sandboxes").add_subparsers(
            dest="action", required=True
        )
        token.add_parser("add", help="print a new token, shown this once").add_argument("sandbox")
        token.add_parser("revoke", help="revoke all of a sandbox").add_argument("sandbox")

    def handle(self, *, word: str, **options: Any) -> None:
        action = options.get("action")
        try:
            getattr(self, f"_{word}_{action}" if action else f"_{word}")(**options)
        except WebhooksError as error:
            raise CommandError(error.message) from None

    def _add_send(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", choices=[*map(str, Source)])
        parser.add_argument("event", help="its type, which GitHub and Confluence name outside the body")
        parser.add_argument("file", help="the body, byte for byte; - reads it from standard input")
        parser.add_argument("--id", dest="delivery_id", help="the delivery id (a new one)")
        parser.add_argument("--url", dest="base_url", help="where the farm answers (JOBFARM_URL, or its port)")

    def _add_secret(self, actions: Any) -> None:
        for action, description in (
            ("add", "add a live secret; without one given, make one up and print it alone on the last line"),
            ("rotate", "add a secret, and retire the others after a while"),
        ):
            parser = actions.add_parser(action, help=description)
            parser.add_argument("source", choices=[*map(str, Source)])
            parser.add_argument("--name", default="", help="where it is used, for people")
            parser.add_argument("--stdin", action="store_true", help="read the sender's secret from standard input")
            if action == "rotate":
                parser.add_argument("--grace", type=float, default=24.0, metavar="HOURS", help="(24)")
        parser = actions.add_parser("retire", help="stop accepting a secret")
        parser.add_argument("source", choices=[*map(str, Source)])
        parser.add_argument("fingerprint", help="as `secret list` shows it")
        parser.add_argument("--grace", type=float, default=0.0, metavar="HOURS", help="(0: at once)")
        actions.add_parser("list", help="the live ones, by fingerprint").add_argument(
            "source", nargs="?", choices=[*map(str, Source)]
        )

    def _send(self, *, source: str, event: str, file: str, **options: Any) -> None:
        try:
            body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}") from None
        where = {name: options[name] for name in ("delivery_id", "base_url")}
        sent = operations.send(configs.find(source), body, event_type=event, **where)
        self.stdout.write(f"{sent.status} {sent.answer}")
        if sent.status >= 300:
            raise CommandError(f"The farm answered {sent.status}.")

    def _secret_add(self, *, source: str, name: str, stdin: bool, **_: Any) -> None:
        row, secret = operations.add(configs.find(source), _supplied(stdin), name=name)
        self._print_secret(row, secret, is_supplied=stdin)

    def _secret_rotate(self, *, source: str, name: str, stdin: bool, grace: float, **_: Any) -> None:
        after = timedelta(hours=grace)
        row, secret = operations.rotate(configs.find(source), _supplied(stdin), grace=after, name=name)
        self._print_secret(row, secret, is_supplied=stdin)

    def _secret_retire(self, *, source: str, fingerprint: str, grace: float, **_: Any) -> None:
        secret = live_secrets().filter(source=source, fingerprint=fingerprint).first()
        if secret is None:
            raise CommandError(f"{source} has no live secret {fingerprint}.")
        row = operations.retire(secret.pk, grace=timedelta(hours=grace))
        self.stdout.write(f"{row.source} {row.fingerprint} opens nothing from {row.retired_at:%Y-%m-%d %H:%M} UTC on.")

    def _secret_list(self, *, source: str | None, **_: Any) -> None:
        for row in live_secrets():
            if source in {None, row.source}:
                until = f", retires {row.retired_at:%Y-%m-%d %H:%M} UTC" if row.retired_at else ""
                used = f"last used {row.last_used_at:%Y-%m-%d %H:%M} UTC" if row.last_used_at else "not used yet"
                name = f" ({row.name})" if row.name else ""
                self.stdout.write(f"{row.source} {row.fingerprint}{name}: {used}{until}")

    def _token_add(self, *, sandbox: str, **_: Any) -> None:
        row, token = operations.create_token(sandbox)
        self.stdout.write(f"A token of the sandbox {row.sandbox}, shown only once:")
        self.stdout.write(token)

    def _token_revoke(self, *, sandbox: str, **_: Any) -> None:
        if not (count := operations.revoke_tokens(sandbox)):
            raise CommandError(f"{sandbox} has no token that is live.")
        self.stdout.write(f"{count} token{'' if count == 1 else 's'} of {sandbox} revoked.")

    def _print_secret(self, row: Any, secret: str, *, is_supplied: bool) -> None:
        path = configs.CONFIGS[configs.find(row.source)].path
        self.stdout.write(f"{row.source} may sign with the secret {row.fingerprint}; it posts to {path}.")
        if not is_supplied:
            self.stdout.write("Enter this as the secret at the sender's; it is shown only once:")
            self.stdout.write(secret)


def _supplied(stdin: bool) -> str | None:
    """From standard input and never as an argument, which other users of the machine could read."""
    return sys.stdin.readline().strip() if stdin else None

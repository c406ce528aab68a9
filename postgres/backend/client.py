"""`manage.py dbshell`, also where no psql is installed."""

from collections.abc import Iterable
from typing import Any

from django.db.backends.postgresql import client

from postgres import embedded


class DatabaseClient(client.DatabaseClient):
    """Django's, which runs the embedded server's own psql on the embedded server."""

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], dict[str, str] | None]:
        command, environment = super().settings_to_cmd_args_env(settings_dict, parameters)
        if settings_dict.get("EMBEDDED"):
            command[0] = str(embedded.bin_folder() / "psql")
        return command, environment

    def runshell(self, parameters: Iterable[str]) -> None:
        self.connection.get_connection_params()  # starts an embedded server
        super().runshell(parameters)

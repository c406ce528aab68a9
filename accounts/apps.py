from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Log-in, one-time links, API tokens. People and groups themselves are Django's."""

    name = "accounts"
    verbose_name = "Accounts"

    def ready(self) -> None:
        from accounts import handlers  # noqa: PLC0415  # models are ready only now

        handlers.connect()

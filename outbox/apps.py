from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "outbox"
    verbose_name = "Outbox"

    def ready(self) -> None:
        """Record what the scheduler, which knows no app above it, cannot."""
        # These import models, which are not loaded when this module is.
        from accounts.operations import handed_over, observe_audit  # noqa: PLC0415
        from outbox.operations.endpoints import disable_all_of  # noqa: PLC0415
        from outbox.operations.record import record_audit, record_cron_failure  # noqa: PLC0415
        from scheduling.operations import notifications  # noqa: PLC0415

        observe_audit(record_audit)
        handed_over.append(disable_all_of)
        notifications.observe_cron_failures(record_cron_failure)

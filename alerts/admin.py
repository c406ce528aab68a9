"""Alerts in the administration: rules, what fires and the messages, to look at and to search. Rules are changed on
their own page, and who did so is in the history of each."""

from django.contrib import admin

from alerts.models import Alert, Notification, Rule
from core import administration


class AlertInline(administration.Part):
    model = Alert
    fields = ["subject", "state", "value", "since", "is_notified"]


@admin.register(Rule)
class RuleAdmin(administration.ReadOnly):
    list_display = ["name", "condition", "target", "severity", "is_enabled", "muted_until", "unknown"]
    list_filter = ["severity", "is_enabled"]
    search_fields = ["name", "target"]
    fieldsets = [
        (None, {"fields": [("name", "is_enabled", "severity"), ("created_by", "created_at")]}),
        ("Condition", {"fields": [("condition", "target", "threshold"), ("window_s", "hold_s", "keep_firing_s")]}),
        ("Messages", {"fields": [("mail_to", "webhook_host"), ("repeat_s", "muted_until", "notified_at")]}),
        ("Judging", {"fields": [("observed_at", "unknown")]}),
    ]
    inlines = [AlertInline]

    def view_on_site(self, obj: Rule) -> str:
        return obj.get_absolute_url()


@admin.register(Notification)
class NotificationAdmin(administration.BoundedList):
    list_display = ["id", "status", "title", "channel", "recipient", "tries", "error", "created_at"]
    list_filter = ["status", "channel"]
    fields = [("status", "tries", "ended_at"), ("rule", "channel", "recipient"), "title", "body", "error", "created_at"]

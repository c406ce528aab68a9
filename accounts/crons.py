"""What accounts do by the clock. Django itself leaves sessions lying that ran out."""

from captcha.models import CaptchaStore
from django.conf import settings
from django.contrib.admin.models import LogEntry

from accounts import operations
from accounts.models import AuditEvent
from scheduling import operations as scheduling

scheduling.declare("guests whose time is over", scheduling.hourly(minute=17), operations.retire_guests)
scheduling.declare("tokens that ran out", scheduling.interval(minutes=15), operations.end_tokens)
scheduling.declare("sessions that ran out", scheduling.interval(minutes=15), operations.end_sessions)
for name, rows, by in (("people", AuditEvent.objects.all(), "at"), ("staff", LogEntry.objects.all(), "action_time")):
    scheduling.keep(f"audit of {name}", rows, by=by, days=lambda: settings.AUDIT_DAYS)
scheduling.keep("captchas", CaptchaStore.objects.all(), by="expiration")

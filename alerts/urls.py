from django.urls import path

from alerts.views import pages
from jobs import http  # noqa: F401  # the converter of ids

app_name = "alerts"
urlpatterns = [
    path("", pages.overview, name="list"),
    path("rules/new/", pages.new, name="new"),
    path("rules/<jobid:rule_id>/", pages.rule, name="rule"),
    path("rules/<jobid:rule_id>/test/", pages.test, name="test"),
    path("rules/<jobid:rule_id>/mute/", pages.mute, name="mute"),
    path("rules/<jobid:rule_id>/unmute/", pages.unmute, name="unmute"),
    path("rules/<jobid:rule_id>/delete/", pages.delete, name="delete"),
]

from django.urls import path

from alerts import views
from jobs import http  # noqa: F401  # the converter of ids

app_name = "alerts"
urlpatterns = [
    path("", views.overview, name="list"),
    path("rules/new/", views.new, name="new"),
    path("rules/<jobid:rule_id>/", views.rule, name="rule"),
    path("rules/<jobid:rule_id>/test/", views.test, name="test"),
    path("rules/<jobid:rule_id>/mute/", views.mute, name="mute"),
    path("rules/<jobid:rule_id>/unmute/", views.unmute, name="unmute"),
    path("rules/<jobid:rule_id>/delete/", views.delete, name="delete"),
]

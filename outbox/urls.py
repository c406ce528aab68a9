"""Addresses of the outbox's pages."""

from django.urls import path

from outbox import views
from outbox.views import replays

app_name = "outbox"
urlpatterns = [
    path("", views.endpoints, name="endpoints"),
    path("new/", views.new, name="new"),
    path("<int:endpoint_id>/", views.endpoint, name="endpoint"),
    path("<int:endpoint_id>/edit/", views.edit, name="edit"),
    path("<int:endpoint_id>/rotate/", views.rotate, name="rotate"),
    path("<int:endpoint_id>/delete/", views.delete, name="delete"),
    path("<int:endpoint_id>/replay/", replays.ask, name="replay_matching"),
    path("<int:endpoint_id>/<slug:action>/", views.act, name="act"),
    path("messages/<int:message_id>/", views.message, name="message"),
    path("replays/<int:replay_id>/", replays.replay, name="bulk_replay"),
    path("replays/<int:replay_id>/stop/", replays.stop, name="replay_stop"),
    path("messages/<int:message_id>/replay/", views.replay, name="replay"),
]

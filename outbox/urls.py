from django.urls import path

from outbox import views

app_name = "outbox"
urlpatterns = [
    path("", views.endpoints, name="endpoints"),
    path("new/", views.new, name="new"),
    path("<int:endpoint_id>/", views.endpoint, name="endpoint"),
    path("<int:endpoint_id>/edit/", views.edit, name="edit"),
    path("<int:endpoint_id>/rotate/", views.rotate, name="rotate"),
    path("<int:endpoint_id>/delete/", views.delete, name="delete"),
    path("<int:endpoint_id>/replay/", views.ask_replay, name="replay_matching"),
    path("<int:endpoint_id>/<slug:action>/", views.act, name="act"),
    path("messages/<int:message_id>/", views.message, name="message"),
    path("replays/<int:replay_id>/", views.bulk_replay, name="bulk_replay"),
    path("replays/<int:replay_id>/stop/", views.stop_replay, name="replay_stop"),
    path("messages/<int:message_id>/replay/", views.replay, name="replay"),
]

"""Addresses under /chat/."""

from django.urls import path

import jobs.http  # noqa: F401  # declares the converter: an id that bigint can hold
from examples.chat import views

app_name = "chat"
urlpatterns = [
    path("", views.rooms, name="rooms"),
    path("<jobid:group_id>/", views.room, name="room"),
    path("<jobid:group_id>/say/", views.post, name="post"),
    path("<jobid:group_id>/cancel/", views.cancel, name="cancel"),
    path("<jobid:group_id>/again/", views.ask_again, name="ask_again"),
    path("<jobid:group_id>/remove/", views.remove, name="remove"),
    path("<jobid:group_id>/instructions/", views.instruct, name="instruct"),
    path("<jobid:group_id>/worker/", views.connect_worker, name="connect_worker"),
]

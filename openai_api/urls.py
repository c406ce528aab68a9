"""Addresses under /batches/."""

from django.urls import path

from openai_api import views

app_name = "openai_api"
urlpatterns = [
    path("", views.batches, name="batches"),
    path("<uuid:batch_id>/", views.batch, name="batch"),
    path("<uuid:batch_id>/cancel/", views.cancel, name="cancel"),
    path("<uuid:batch_id>/<slug:which>.jsonl", views.file, name="file"),
]

"""Addresses under /batches/."""

from django.urls import URLPattern

app_name = "openai_api"
urlpatterns: list[URLPattern] = []

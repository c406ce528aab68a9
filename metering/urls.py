"""Addresses under /usage/."""

from django.urls import path

from metering import views

app_name = "metering"
urlpatterns = [path("", views.usage, name="usage"), path("usage.csv", views.as_csv, name="csv")]

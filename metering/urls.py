"""Addresses under /usage/."""

from django.urls import path

from metering.views import pages

app_name = "metering"
urlpatterns = [path("", pages.usage, name="usage"), path("usage.csv", pages.as_csv, name="csv")]

"""Addresses under /limits/."""

from django.urls import path

from ratelimits import views

app_name = "ratelimits"
urlpatterns = [
    path("", views.overview, name="list"),
    path("one/", views.one, name="one"),
    path("reset/", views.reset, name="reset"),
    path("refresh/", views.refresh, name="refresh"),
]

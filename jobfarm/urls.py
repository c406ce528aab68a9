"""Every address of the site."""

from django.contrib import admin
from django.urls import include, path

from jobfarm import views
from jobfarm.api import api

urlpatterns = [
    path("api/", api.urls),
    path("accounts/", include("accounts.urls")),
    path("admin/", admin.site.urls),
    path("", views.overview, name="overview"),
    path("", include("jobs.urls")),
]

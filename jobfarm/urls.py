"""Every address of the site."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from accounts.views import admin_log_in
from jobfarm import views
from jobfarm.api import api

urlpatterns = [
    # Browsers ask for it by themselves on pages that name no picture: the administration, the API's page.
    path("favicon.ico", RedirectView.as_view(url=static("jobfarm/favicon.svg"))),
    path("api/", api.urls),
    path("accounts/", include("accounts.urls")),
    path("admin/login/", admin_log_in),  # before the administration's own, which it stands in for
    path("admin/", admin.site.urls),
    path("limits/", include("ratelimits.urls")),
    path("", include("scheduling.urls")),
    path("", include("webhooks.urls")),
    path("health/live", views.live, name="health_live"),
    path("health/ready", views.ready, name="health_ready"),
    path("metrics", views.metrics, name="metrics"),
    path("game/", include("examples.imagegame.urls")),
    path("chat/", include("examples.chat.urls")),
    path("", views.overview, name="overview"),
    path("", include("jobs.urls")),
]

handler500 = "jobfarm.error_pages.server_error"

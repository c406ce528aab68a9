from allauth.account.decorators import secure_admin_login
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.templatetags.static import static
from django.urls import URLResolver, include, path
from django.utils.module_loading import module_has_submodule
from django.views.decorators.http import require_safe
from django.views.generic import RedirectView

from accounts.urls import of_allauth
from jobfarm import views
from jobfarm.api import api, openai


def _of_added_apps() -> list[URLResolver]:
    """The addresses of apps that JOBFARM_APPS adds, each below its label, unless it says where."""
    names = {one: {one.name, f"{type(one).__module__}.{type(one).__qualname__}"} for one in apps.get_app_configs()}
    return [
        path(getattr(config, "url_prefix", f"{config.label}/"), include(f"{config.name}.urls"))
        for config in names
        if names[config] & {*settings.JOBFARM_APPS} and module_has_submodule(config.module, "urls")
    ]


admin.autodiscover()  # here, and not when the apps are loaded (`jobfarm.lazy_admin`)
urlpatterns = [
    # Browsers ask for it by themselves on pages that name no picture: the administration, the API's page.
    path("favicon.ico", RedirectView.as_view(url=static("jobfarm/favicon.svg"))),
    path("api/", api.urls),
    path("v1/", openai.urls),
    path("accounts/", include(of_allauth)),
    path("accounts/", include("accounts.urls")),
    path("admin/login/", require_safe(secure_admin_login(admin.site.login))),  # one door, with one limit on it
    path("admin/", admin.site.urls),
    path("limits/", include("ratelimits.urls")),
    path("outbox/", include("outbox.urls")),
    path("alerts/", include("alerts.urls")),
    path("usage/", include("metering.urls")),
    path("batches/", include("openai_api.urls")),
    path("", include("scheduling.urls")),
    path("", include("webhooks.urls")),
    path("health/live", views.live, name="health_live"),
    path("health/ready", views.ready, name="health_ready"),
    path("metrics", views.metrics, name="metrics"),
    path("", views.home, name="overview"),
    path("", include("jobs.urls")),
    *_of_added_apps(),  # the last: what is the farm's stays the farm's
]

handler500 = "jobfarm.middleware.server_error"

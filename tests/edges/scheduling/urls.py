"""The site with the pages of the scheduler, wherever the site itself puts them."""

from django.urls import include, path

from jobfarm.urls import urlpatterns as site

urlpatterns = [*site, path("scheduling/", include("scheduling.urls"))]

"""Its address."""

from django.urls import path

from examples.translation import views

app_name = "translation"
urlpatterns = [path("start/", views.start, name="start")]

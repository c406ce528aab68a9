"""Addresses of the game. `jobid`, which takes what a bigint can hold, is declared in jobs.http."""

from django.urls import path

import jobs.http  # noqa: F401  # declares the converter
from examples.imagegame.views import acts, pages

app_name = "imagegame"
urlpatterns = [
    path("", pages.lobby, name="lobby"),
    path("open/", acts.open_game, name="open"),
    path("join/", acts.join, name="join"),
    path("gallery/", pages.gallery, name="gallery"),
    path("paint/", acts.paint, name="paint"),
    path("pictures/<jobid:submission_id>/", pages.picture, name="picture"),
    path("pictures/<jobid:submission_id>/withdraw/", acts.withdraw, name="withdraw"),
    path("<str:code>/", pages.game, name="game"),
    path("<str:code>/leave/", acts.leave, name="leave"),
    path("<str:code>/begin/", acts.begin, name="begin"),
    path("<str:code>/on/", acts.go_on, name="go_on"),
    path("<str:code>/again/", acts.again, name="again"),
    path("<str:code>/play/", acts.play, name="play"),
    path("<str:code>/name/", acts.name, name="name"),
    path("<str:code>/guess/", acts.guess, name="guess"),
]

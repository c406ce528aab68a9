"""What such a site has to say."""

import os

import django

SECRET_KEY = "of a site in a test"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["SITE_DATABASE"]}}
INSTALLED_APPS = ["jobfarm_client.django", "letters"]
if django.VERSION < (6,):
    INSTALLED_APPS += ["django_tasks"]
_FARM = {"url": os.environ["SITE_FARM"], "token": os.environ["SITE_TOKEN"], "worker_key": os.environ.get("SITE_KEY")}
_BACKEND = {"BACKEND": "jobfarm_client.django.FarmBackend", "QUEUES": ["default", "letters"]}
_LABELS = {"requires": {"vram": ">=16"}, "prefers": {"region": ["home", "lab"]}}
TASKS = {"default": {**_BACKEND, "OPTIONS": _FARM}, "large": {**_BACKEND, "OPTIONS": {**_FARM, **_LABELS}}}

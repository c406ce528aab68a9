from django.urls import path, register_converter
from django.urls.converters import IntConverter, StringConverter

from scheduling import views

app_name = "scheduling"

# What bigint cannot hold matches nothing: 404, as for any unknown function. No text of PostgreSQL's has a NUL.
for name, kind, regex in (
    ("functionid", IntConverter, "[0-9]{1,18}"),
    ("cronname", StringConverter, "[^/\0]+"),
    ("cronaction", StringConverter, "pause|resume|run|reset|remove"),
):
    register_converter(type(name, (kind,), {"regex": regex}), name)

urlpatterns = [
    path("functions/", views.functions, name="functions"),
    path("functions/<functionid:function_id>/", views.function, name="function"),
    path("functions/<functionid:function_id>/cancel/", views.cancel, name="cancel"),
    path("functions/<functionid:function_id>/run-again/", views.run_again, name="run_again"),
    path("crons/", views.crons, name="crons"),
    path("new-cron/", views.new_cron, name="new_cron"),
    path("new-cron/preview/", views.preview, name="cron_preview"),
    path("crons/<cronname:name>/", views.cron, name="cron"),
    path("crons/<cronname:name>/edit/", views.edit_cron, name="edit_cron"),
    path("crons/<cronname:name>/<cronaction:action>/", views.cron_action, name="cron_action"),
]

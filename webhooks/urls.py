"""Addresses of the pages. The eight that adapters post to are served outside of Django (webhooks.http.ingress)."""

from django.urls import path

import jobs.http  # noqa: F401  # declares the converter of ids
from webhooks.views import inbox, sources

app_name = "webhooks"
urlpatterns = [
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/<jobid:delivery_id>/", inbox.delivery, name="delivery"),
    path("inbox/<jobid:delivery_id>/body", inbox.body, name="body"),
    path("inbox/<jobid:delivery_id>/replay/", inbox.replay, name="replay_one"),
    path("inbox/<jobid:delivery_id>/start/", inbox.start_again, name="start_again"),
    path("inbox/replays/", inbox.replays, name="replays"),
    path("inbox/replays/new/", inbox.ask_replay, name="replay_ask"),
    path("inbox/replays/<jobid:first>/", inbox.show_replay, name="replay"),
    path("inbox/replays/<jobid:first>/stop/", inbox.stop_replay, name="replay_stop"),
    path("inbox/sources/", sources.sources, name="sources"),
    path("inbox/sources/<str:name>/", sources.source, name="source"),
    path("inbox/sources/<str:name>/send/", sources.send, name="send"),
    path("inbox/sources/<str:name>/secrets/<jobid:secret_id>/retire/", sources.retire, name="retire"),
    path("inbox/tokens/", sources.create_token, name="create_token"),
    path("inbox/tokens/revoke/", sources.revoke_tokens, name="revoke_tokens"),
    path("activity/", inbox.activity, name="activity"),
]

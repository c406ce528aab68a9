"""Every live query as everybody who may ask to watch it: the audience that they see it as, "-" for none."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from examples.imagegame.models import Game, Submission
from jobs.queries.pages import EVERYBODY
from live import protocol, registry
from live.protocol import WatchRequest
from tests.permissions.world import World

pytestmark = pytest.mark.django_db

# `ticket`: somebody with the link that the owner shares the job by. A "*" asks for what is everybody's.
VIEWERS = ("nobody", "ticket", "guest", "other", "mate", "owner", "reader", "staff", "root")
QUERIES = """
#                      nobody   ticket   guest    other    mate     owner    reader   staff    root
activity               -        -        -        -        -        -        operator operator operator
activity-digest        -        -        -        -        -        -        operator operator operator
alerts                 -        -        -        -        -        -        operator operator operator
alert-notifications    -        -        -        -        -        -        operator operator operator
alert-rule             -        -        -        -        -        -        operator operator operator
alert-rules            -        -        -        -        -        -        operator operator operator
bulk                   -        -        -        -        -        member   member   member   member
chat-instructions      -        -        -        -        member   member   -        -        -
chat-members           -        -        -        -        member   member   -        -        -
chat-room              -        -        -        -        member   member   -        -        -
chat-rooms             -        -        -        -        -        member   -        -        -
chat-rooms*            -        -        -        -        -        -        -        -        -
chat-workers           -        -        -        -        member   member   -        -        -
deliveries             -        -        -        -        -        -        operator operator operator
delivery               -        -        -        -        -        -        operator operator operator
delivery-badge         -        -        -        -        -        -        operator operator operator
delivery-jobs          -        -        -        -        -        -        operator operator operator
flow                   -        -        -        -        -        member   -        -        -
flow*                  -        -        -        -        -        -        operator operator operator
front                  -        -        -        -        -        -        -        -        -
front-demonstration    -        -        -        -        -        -        -        -        -
front-picture          -        -        -        -        -        -        -        -        -
function-state         -        -        -        -        -        -        operator operator operator
group-members          -        -        -        -        member   member   -        -        -
imagegame-gallery      -        -        -        -        -        member   -        -        -
imagegame-games        -        -        member   member   member   member   member   member   member
imagegame-health       -        -        member   member   member   member   member   member   member
imagegame-mine         -        -        -        -        -        member   -        -        -
imagegame-submission   -        -        -        -        -        member   -        -        -
imagegame-table        -        -        -        -        -        member   -        -        -
inbox-figures          -        -        -        -        -        -        operator operator operator
job                    -        public   -        -        member   member   member   member   member
job-badge              -        -        -        -        -        -        operator operator operator
job-facts              -        public   -        -        member   member   operator operator operator
job-files              -        public   -        -        member   member   member   member   member
job-history            -        public   -        -        member   member   operator operator operator
job-json               -        -        -        -        member   member   member   member   member
job-output             -        public   -        -        member   member   member   member   member
job-signal             -        -        -        -        -        member   -        member   member
job-status             -        -        -        -        member   member   member   member   member
job-text               -        public   -        -        member   member   member   member   member
job-why                -        -        -        -        member   member   operator operator operator
jobs                   -        -        -        -        -        member   -        -        -
jobs-count             -        -        -        -        -        member   -        -        -
jobs*                  -        -        -        -        -        -        operator operator operator
jobs-count*            -        -        -        -        -        -        operator operator operator
limit                  -        -        -        -        -        -        operator operator operator
limits                 -        -        -        -        -        -        operator operator operator
openai-batch           -        -        -        -        -        member   operator operator operator
openai-batch-lines     -        -        -        -        -        member   operator operator operator
openai-batches         -        -        -        -        -        member   operator operator operator
openai-batches*        -        -        -        -        -        -        operator operator operator
outbox-endpoint        -        -        -        -        -        member   member   member   member
outbox-endpoints       -        -        -        -        -        member   -        -        -
outbox-endpoints*      -        -        -        -        -        -        operator operator operator
outbox-message         -        -        -        -        -        member   member   member   member
outbox-messages        -        -        -        -        -        member   member   member   member
outbox-replay          -        -        -        -        -        member   member   member   member
overview               -        -        -        -        -        member   -        -        -
overview*              -        -        -        -        -        -        operator operator operator
overview-charts        -        -        -        -        -        member   -        -        -
overview-charts*       -        -        -        -        -        -        operator operator operator
overview-crons         -        -        -        -        -        -        operator operator operator
overview-figures       -        -        -        -        -        member   -        -        -
overview-figures*      -        -        -        -        -        -        operator operator operator
overview-limits        -        -        -        -        -        -        operator operator operator
overview-processes     -        -        -        -        -        -        operator operator operator
overview-warnings      -        -        -        -        -        -        operator operator operator
overview-webhooks      -        -        -        -        -        -        operator operator operator
queue                  -        -        -        -        -        member   -        -        -
queue*                 -        -        -        -        -        -        operator operator operator
queue-shares           -        -        -        -        -        -        operator operator operator
queue-durations        -        -        -        -        -        -        operator operator operator
queue-work             -        -        -        -        -        member   -        -        -
queue-work*            -        -        -        -        -        -        operator operator operator
timeline               -        -        -        -        -        -        operator operator operator
queues                 -        -        -        -        -        member   -        -        -
queues*                -        -        -        -        -        -        operator operator operator
scheduled-function     -        -        -        -        -        -        operator operator operator
scheduled-functions    -        -        -        -        -        -        operator operator operator
scheduling-clusters    -        -        -        -        -        -        operator operator operator
scheduling-cron        -        -        -        -        -        -        operator operator operator
scheduling-crons       -        -        -        -        -        -        operator operator operator
webhook-refusals       -        -        -        -        -        -        operator operator operator
webhook-replay         -        -        -        -        -        -        operator operator operator
webhook-secret         -        -        -        -        -        -        operator operator operator
webhook-source         -        -        -        -        -        -        operator operator operator
webhook-sources        -        -        -        -        -        -        operator operator operator
worker                 -        -        -        -        -        member   member   member   member
worker-arrival         -        -        -        -        -        member   member   member   member
worker-history         -        -        -        -        -        member   member   member   member
workers                -        -        -        -        -        member   -        -        -
workers*               -        -        -        -        -        -        operator operator operator
"""


def _lines() -> Iterator[tuple[str, dict[str, str]]]:
    for line in QUERIES.splitlines():
        if line and not line.startswith("#"):
            name, *cells = line.split()
            yield name, dict(zip(VIEWERS, cells, strict=True))


def _arguments(farm: World) -> dict[str, Any]:
    """What stands for the names of arguments."""
    names, game, inbox, owner = (farm.names(""), farm.names("game/"), farm.names("inbox/"), farm.users["owner"].pk)
    return {
        **{name: names[name] for name in ("job_id", "worker_id", "flow_id")},
        **{name: inbox[name] for name in ("delivery_id", "first", "secret_id")},
        **{name: farm.names("outbox/")[name] for name in ("endpoint_id", "message_id", "replay_id")},
        "whose": owner, "me": owner, "queue": "chat", "source": "github", "name": "nightly", "group": 0, "since_ms": 0,
        "minutes": 15, "page": 0, "batch_id": str(farm.names("batches/")["batch_id"]),
        "rule_id": farm.names("alerts/")["rule_id"],
        "submission_id": game["submission_id"], "game_id": Game.objects.get(code=game["code"]).pk,
        "group_id": farm.names("chat/")["group_id"], "bulk_id": farm.names("jobs/bulk/")["bulk_id"],
        "function_id": farm.names("functions/")["function_id"],
    }  # fmt: skip


def _watch_request(farm: World, line: str, who: str, arguments: Mapping[str, Any]) -> WatchRequest:
    name = line.removesuffix("*")
    parameters = registry.find(name).parameters
    wanted = [each for each, parameter in parameters.items() if parameter.default is parameter.empty]
    given = {each: arguments[each] for each in wanted}
    if line.endswith("*"):
        given["whose"] = EVERYBODY
    if name == "imagegame-submission":
        given["job_id"] = Submission.objects.get(pk=given["submission_id"]).job_id
    ticket = farm.names("jobs/shared/")["token"] if who == "ticket" else None
    return WatchRequest.model_validate({"id": "a", "name": name, "args": given, "ticket": ticket, "language": "en-gb"})


def _audience(verdict: protocol.WatchDecision) -> str:
    if isinstance(verdict, protocol.Granted):
        return verdict.audience
    return "-" if verdict.error is None else verdict.error.code


def test_every_live_query_has_a_line() -> None:
    """Whoever adds a live query says here who may watch it; what can be asked of everybody has a second line."""
    declared = [query for query in registry.everything() if not query.name.startswith("test-")]
    wanted = {query.name for query in declared}
    wanted |= {f"{query.name}*" for query in declared if "whose" in query.parameters}
    assert {name for name, _ in _lines()} == wanted


def test_everybody_sees_what_the_table_says(farm: World) -> None:
    arguments = _arguments(farm)
    found: dict[str, dict[str, str]] = {}
    for line, cells in _lines():
        found[line] = {}
        for who in cells:
            user = farm.users.get(who, AnonymousUser())
            [verdict] = protocol.judge(user, [_watch_request(farm, line, who, arguments)])
            found[line][who] = _audience(verdict)
    assert found == dict(_lines())

"""What the page at /api/docs shows of the outbox. Its examples run once FARM, TOKEN, ENDPOINT and MESSAGE are set."""

from typing import Final

ENDPOINTS: Final = """
Your endpoints, newest first; for staff who may see them all of them.

    curl -sS $FARM/api/v1/outbox/endpoints -H "Authorization: Bearer $TOKEN"

`next` is the `cursor` of the following page, null on the last one.
"""
CREATE: Final = """
Makes an endpoint of yours, or with `for_farm` one of the whole farm (404 for who is no operator). `secret` verifies
what it gets, and is in this answer alone. Takes the scope `endpoints`, and with `with_result` `read` as well. 422
`bad_url`, `bad_endpoint`; 409 `too_many_endpoints`.

    curl -sS $FARM/api/v1/outbox/endpoints -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
         -d '{"name": "mine", "url": "https://hooks.example/jobfarm", "events": ["job.failed", "job.timed_out"]}'
"""
SHOW: Final = """
One endpoint, with the fingerprints of the secrets that sign now.

    curl -sS $FARM/api/v1/outbox/endpoints/$ENDPOINT -H "Authorization: Bearer $TOKEN"
"""
CHANGE: Final = """
Changes the fields that are there. What was written for it before goes to its new address. Takes the scopes of making
it as it is then. 403 `forbidden` for one that you may only look at.

    curl -sS -X PATCH $FARM/api/v1/outbox/endpoints/$ENDPOINT -H "Authorization: Bearer $TOKEN" \\
         -H 'Content-Type: application/json' -d '{"events": ["job.*"], "per_minute": 60}'
"""
ROTATE: Final = """
Gives it another secret, which is in this answer alone. Those before sign along for `overlap_s`, a day without it. Takes
the scope `endpoints`.

    curl -sS $FARM/api/v1/outbox/endpoints/$ENDPOINT/rotate -H "Authorization: Bearer $TOKEN" \\
         -H 'Content-Type: application/json' -d '{"overlap_s": 3600}'
"""
PAUSE: Final = """
Sends nothing to it; what happens is kept for it until `resume`.

    curl -sS -X POST $FARM/api/v1/outbox/endpoints/$ENDPOINT/pause -H "Authorization: Bearer $TOKEN"
"""
RESUME: Final = """
Sends to it again, at once what was kept for it or waits for another attempt; also when the farm paused or disabled it.

    curl -sS -X POST $FARM/api/v1/outbox/endpoints/$ENDPOINT/resume -H "Authorization: Bearer $TOKEN"
"""
DISABLE: Final = """
Keeps nothing for it any more; what waits for it is dead.

    curl -sS -X POST $FARM/api/v1/outbox/endpoints/$ENDPOINT/disable -H "Authorization: Bearer $TOKEN"
"""
TEST: Final = """
Sends it an event `outbox.test`, whatever it asks for.

    curl -sS -X POST $FARM/api/v1/outbox/endpoints/$ENDPOINT/test -H "Authorization: Bearer $TOKEN"
"""
DELETE: Final = """
Deletes it with its messages. Takes the scope `endpoints`.

    curl -sS -X DELETE $FARM/api/v1/outbox/endpoints/$ENDPOINT -H "Authorization: Bearer $TOKEN"
"""
MESSAGES: Final = """
The messages to the endpoints that you may see, newest first, without their bodies.

    curl -sS "$FARM/api/v1/outbox/messages?status=dead&type=job.failed&limit=20" -H "Authorization: Bearer $TOKEN"

`next` is the `cursor` of the following page, null on the last one.
"""
MESSAGE: Final = """
One message with its body and its attempts, each with its time and the first 4 kB of the answer.

    curl -sS $FARM/api/v1/outbox/messages/$MESSAGE -H "Authorization: Bearer $TOKEN"
"""
REPLAY: Final = """
Sends a message that has ended once more, under the id it had. 409 `cannot_replay` for one that waits.

    curl -sS -X POST $FARM/api/v1/outbox/messages/$MESSAGE/replay -H "Authorization: Bearer $TOKEN"
"""
REPLAY_ALL: Final = """
Sends all messages that match and have ended once more, oldest first, 500 a second at most; those to disabled endpoints
are left out. Without a filter: all that are yours; for operators all there are. `id` is null when nothing matches, and
with `"dry_run": true`, which counts alone: `matched`.

    curl -sS $FARM/api/v1/outbox/replays -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
         -d '{"status": "dead", "type": "job.failed"}'
"""
PROGRESS: Final = """
How far a replay of many is, for as long as the scheduler keeps its functions.

    curl -sS $FARM/api/v1/outbox/replays/$REPLAY -H "Authorization: Bearer $TOKEN"
"""
STOP: Final = """
Begins no further batch of a replay of many; what was replayed stays so. 409 `cannot_stop` once it is over, or while a
batch is under way.

    curl -sS -X POST $FARM/api/v1/outbox/replays/$REPLAY/stop -H "Authorization: Bearer $TOKEN"
"""

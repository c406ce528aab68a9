"""What the page at /api/docs says. Its examples run once FARM, KEY, TOKEN, JOB and LEASE are set."""

from typing import Any, Final

ANY_BYTES: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The file's bytes; not a form.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
SOME_BYTES: Final[dict[str, Any]] = {
    "responses": {200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}
}
_EVENT: Final = {  # one of the stream's
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["job", "output", "end"]},
        "id": {"type": "string"},
        "data": {"type": "string", "description": "JSON, as the description of this call has it."},
    },
}
EVENT_STREAM: Final[dict[str, Any]] = {
    "parameters": [
        {
            "in": "header",
            "name": "Last-Event-ID",
            "required": False,
            "schema": {"type": "string"},
            "description": "The id of the last event that arrived; the stream goes on behind it.",
        }
    ],
    "responses": {200: {"content": {"text/event-stream": {"schema": _EVENT}}}},
}

API: Final = """
Two kinds of callers, two kinds of keys, both sent as `Authorization: Bearer <key>`:

* **Workers** take jobs and report on them. The command `create_worker NAME --queue QUEUE` makes a worker and
  prints its key (`jfw_...`) once; the admin does the same.
* **Clients** submit jobs, follow and cancel them. The account page, or the command `create_token USER`, makes
  a person's API token (`jft_...`) and shows it once. In a browser the session of whoever is logged in
  serves as well; calls that change something then need the header `X-CSRFToken`.

Bodies are JSON with `Content-Type: application/json`. Unknown fields are refused. Times are ISO 8601 in UTC.

Errors always have this form, with the status that fits, and with the numbers that matter beside it:

    {"error": "output_gap", "message": "Output must be sent in order: ... number 3.", "next_seq": 3}

400 `not_json`; 401 `unauthorized` (no key, a wrong or a revoked one, or one that ran out); 403 `forbidden`,
`queue_not_allowed`, `insufficient_scope` (a token has some of the scopes `submit`, `read` for all that looks, and
`operate` to cancel, retry and run now);
404 `not_found` (also for jobs that are not yours to see); 405 `method_not_allowed`; 409 `lease_lost`,
`output_gap`, `not_unique`, `not_ended`, `file_in_use`, `idempotency_key_in_use`; 410 `job_deleted`; 413 `too_large`,
`quota_reached`; 415 `unsupported_media_type`; 422 `invalid`, `invalid_json`, `invalid_name`, `unknown_kind`,
`unknown_queue`, `unknown_file`, `not_a_member`, `idempotency_key_reused`, `count_exceeds` (more at once than a limit
ever grants), `exceeds_budget` (more than a budget is); 429 `rate_limited`: nothing was stored, come back after
`retry_after` seconds, which the header
`Retry-After` says too; 429 `budget_exhausted`: the same for a budget, but with `X-Wait: 1` the job is stored and waits;
429 `quota_reached`: as many jobs of yours, or in all, wait as may, and nothing was stored;
503 `unavailable`: the database is away, or others were changing the same at every try (with `Retry-After`): nothing
was changed, make the call again.

A worker made of curl, from the claim to the result:

    export FARM=http://127.0.0.1:8000 KEY=jfw_...
    curl -sS $FARM/api/v1/worker/claim -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"wait": 30}'
    export JOB=7 LEASE=1-...      # id and lease of the job that came
    curl -sS $FARM/api/v1/worker/jobs/$JOB/heartbeat -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'"}'
    curl -sS $FARM/api/v1/worker/jobs/$JOB/output -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'", "seq": 0, "text": "Hello."}'
    curl -sS $FARM/api/v1/worker/jobs/$JOB/finish -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'", "outcome": "success", "result": 42}'

The same verbs travel over one WebSocket at `/ws/worker/`, with the same key in the same header: send
`{"type": "claim", "ref": 1, "limit": 1}`, get `{"type": "claim", "ref": 1, "jobs": [...]}`; where a path
here names a job, the message has it as `"job"`. Types: `claim heartbeat output finish finish_many release unclaim`.
An error is `{"type": "error", "ref": 1, "status": 409, "error": "lease_lost", "message": "..."}`. A claim with
`wait` is answered when there is a job, other calls meanwhile. Without being asked the farm says
`{"type": "stop", "job": 7, "reason": "canceled"}` when a job was taken from this worker and, to one that claims without
`wait`, `{"type": "work", "available": true}` once there is something after a claim that got fewer jobs than it
asked for, and `{"type": "share"}` when another worker waits: give back by `unclaim` what you have not begun. It closes
with code 4401 when the key is refused or revoked. A message
may have 10 MB; put `ref` before the long fields, and one that is larger is refused (413 `too_large`) under it.
"""

CLAIM: Final = """
Take up to `limit` pending jobs. With `wait`, the answer comes as soon as there is a job, or empty after
that many seconds; so ask again and again, and never pause in between. Without `wait`, a worker that finds nothing
more than 60 times a minute gets 429 `rate_limited`.

    curl -sS $FARM/api/v1/worker/claim -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"limit": 1, "wait": 30}'

Each job comes with a `lease`. It is the right to speak for the job: send it with every later call. The first of
them confirms it, so send a heartbeat on receipt: unconfirmed for `heartbeat_every` seconds, the job goes back, and
no attempt is counted; again and again, with a delay and for another worker, and from the fifth time in a row as a
lost attempt. Then it runs out at `lease_expires_at` unless you send a heartbeat (or output) at
least every `heartbeat_every` seconds; the attempt is lost, and another worker gets the job.

If the answer does not arrive, send the same call with the same `request_id` again: it is answered with what it
claimed the first time, as far as those leases still stand.

409 `lease_lost` from any call means: this job is not yours, drop it. `reason` says why: `canceled`, `ended`
(`job_status`: how), `timed_out` (it ran too long), `taken_over`, `taken_back` or `unknown`. `traceparent` is the trace
that the job was submitted in, from the header of that name; null if in none.

`files`, of a job that has some: name, size, SHA-256 and type of what it was given, to be fetched from `inputs/{name}`.

`drained` true: people have this worker finish what it holds and take nothing more, until they end that. A claim with
`wait` then waits its time out and brings nothing, unless that ends; give back what you have not begun (`unclaim`).
"""
HELLO: Final = """
Says what this worker is, for the pages that people look at: nothing rests on it, and every field may be left out, the
call too. Make it when you start, and again when something changed; the same again costs the farm nothing.

    curl -sS $FARM/api/v1/worker/hello -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"host": "gpu-3", "handlers": ["chat"], "concurrency": 2}'
"""
WORKERS: Final = """
Your workers; everybody's for operators. The 200 that were seen last, those first, revoked ones at the end.

`presence` is `live`, `away` (not seen for 90 seconds), `never_connected` or `revoked`. `about` is what a worker
reported of itself.

    curl -sS $FARM/api/v1/workers -H "Authorization: Bearer $TOKEN"
"""
WORKER: Final = """
One worker, as the list has it.

    curl -sS $FARM/api/v1/workers/$WORKER -H "Authorization: Bearer $TOKEN"
"""
UNDRAIN: Final = """
The worker is given jobs again. For whoever may drain it; of one that is not drained nothing changes.

    curl -sS -X POST $FARM/api/v1/workers/$WORKER/undrain -H "Authorization: Bearer $TOKEN"
"""
DRAIN: Final = """
The worker finishes what it holds and is given nothing more, until `undrain`. It stays connected, and is notified. For
its owner, and for staff who may operate the farm; of one that is drained already nothing changes. It is empty when
`jobs` is.

    curl -sS -X POST $FARM/api/v1/workers/$WORKER/drain -H "Authorization: Bearer $TOKEN"
"""
LABELS: Final = """
Sets the labels of a worker that win over those it announces: `{}` leaves it to what it announces, an empty value takes
a label away. For staff who may operate the farm alone, since what is set here its owner cannot announce away. What the
worker holds it keeps.

    curl -sS -X PUT $FARM/api/v1/workers/$WORKER/labels -H "Authorization: Bearer $TOKEN" \\
         -H 'Content-Type: application/json' -d '{"labels": {"region": "home"}}'
"""
HEARTBEAT: Final = """
Renews the lease; `progress` and `detail` are shown to people and kept until you say something else.

    curl -sS $FARM/api/v1/worker/jobs/$JOB/heartbeat -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'", "progress": 0.4, "detail": "Painting"}'
"""
OUTPUT: Final = """
Appends a piece of text to the job's output. Pieces are numbered from 0 in each attempt. Sending the same
number twice stores it once, so after a lost answer just send again; a number too far is refused with 409
`output_gap` and the `next_seq` expected. Renews the lease as well. An attempt, a job, its owner and the farm have
quotas: what has no room is refused with 413 `quota_reached`, and nothing changes.

    curl -sS $FARM/api/v1/worker/jobs/$JOB/output -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'", "seq": 0, "text": "Once upon a time"}'
"""
PUT_FILE: Final = """
Keeps the request's body as a file of the job, under a plain name (letters, digits, dots, dashes,
underscores). The same name again replaces it. Renews the lease as well. Without room in the quotas of the attempt,
the job, its owner or the farm: 413 `quota_reached`.

    curl -sS -X PUT "$FARM/api/v1/worker/jobs/$JOB/files/picture.png?lease=$LEASE" \\
         -H "Authorization: Bearer $KEY" --data-binary @picture.png
"""
FINISH: Final = """
Ends the attempt. `success` stores `result`. `failed` stores `error`, and the job is retried later, by
another worker if there is one, until its attempts are used up or `retryable` is false. With `claim_next`
the next jobs come with the answer. The same finish again, since its answer was lost, is answered as the first
time, with those of the next jobs whose leases still stand and that no call has named.

    curl -sS $FARM/api/v1/worker/jobs/$JOB/finish -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'", "outcome": "success", "result": 42}'
"""
RELEASE: Final = """
Gives the job back: it waits again at once, and this does not count as an attempt. For a worker that shuts
down. From the fourth time in a row on the job waits a while.

    curl -sS $FARM/api/v1/worker/jobs/$JOB/release -H "Authorization: Bearer $KEY" \\
         -H 'Content-Type: application/json' -d '{"lease": "'$LEASE'"}'
"""
UNCLAIM: Final = """
Gives back jobs that were not begun: those whose leases no call has named since they came wait again at once, as if
they had not been claimed. Others are left alone. For a worker that took several at a time; may be sent again.

    curl -sS $FARM/api/v1/worker/unclaim -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
         -d '{"jobs": [{"id": '$JOB', "lease": "'$LEASE'"}]}'
"""
FINISH_MANY: Final = """
Ends several attempts in one transaction. The answer has an entry for each, in order: its new `status`, or
`"error": "lease_lost"` with its `reason`. May be repeated as `finish` may. A result that cannot be stored is refused
alone: `"error": "invalid_json"` or `"too_large"` with why, and its lease holds on.

    curl -sS $FARM/api/v1/worker/finish -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
         -d '{"finished": [{"id": '$JOB', "lease": "'$LEASE'", "outcome": "success"}], "claim_next": 1}'
"""
UPLOAD: Final = """
Keeps the request's body as a file that jobs of yours may be given: name its `id` in `files` of a submit, for as many
jobs as you like. It is kept for 24 hours, and while a job uses it. It counts as your result files do: without room in
your quota, or the farm's, 413 `quota_reached`. Names are plain (letters, digits, dots, dashes, underscores).

    curl -sS -X POST "$FARM/api/v1/files?name=sound.ogg" -H "Authorization: Bearer $TOKEN" \\
         -H 'Content-Type: application/octet-stream' --data-binary @sound.ogg
"""
SHOW_UPLOAD: Final = """
    curl -sS $FARM/api/v1/files/$FILE -H "Authorization: Bearer $TOKEN"
"""
DELETE_UPLOAD: Final = """
409 `file_in_use` while a job that has not ended uses it. From jobs that ended it is gone, too: they cannot be retried.

    curl -sS -X DELETE $FARM/api/v1/files/$FILE -H "Authorization: Bearer $TOKEN"
"""
GET_INPUT: Final = """
A file that the job was given. `Range` is answered with 206.

    curl -sS $FARM/api/v1/jobs/$JOB/inputs/audio -H "Authorization: Bearer $TOKEN" -o sound.ogg
"""
GET_INPUT_AS_WORKER: Final = """
A file that the job was given, for whoever holds its lease; renews the lease as well. A download that was cut goes on
with `Range` (206): compare `sha256` of the claim at its end. It may be a redirect to where files lie (curl: `-L`).

    curl -sS "$FARM/api/v1/worker/jobs/$JOB/inputs/audio?lease=$LEASE" -H "Authorization: Bearer $KEY" -o input.ogg
"""
SUBMIT: Final = """
    curl -sS $FARM/api/v1/jobs -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
         -d '{"kind": "chat", "payload": {"prompt": "Why is the sky blue?"}}'

Without the right to do so (403 `forbidden` says which) `priority` is at most the kind's own or 0, and `queue` the
kind's own.

`unique_key` refuses a twin: 409 `not_unique`, with the living one's id as `job`, while a job of yours of the same
kind and key has not ended. Other people's keys are theirs.

With an `Idempotency-Key` the call may be repeated when its answer was lost: for 24 hours the same key with the same
body submits nothing more, and is answered with the same job, as it stands now, whatever has become of it (410
`job_deleted` if that was deletion). Another body: 422 `idempotency_key_reused`. While the first is still being carried
out a repeat waits for it; after 5 s it gets 409 `idempotency_key_in_use`: send it again after `Retry-After` seconds.
A refusal is not kept: a repeat of it is tried anew.

`files` gives the job input files: `{"audio": "<id>"}` names an upload (`POST /api/v1/files`) as the worker asks for it;
16 at most. 422 `unknown_file` for one that is not there, or is neither yours nor of a job that you may see.

    curl -sS $FARM/api/v1/jobs -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
         -H 'Idempotency-Key: 2f1a6f0e-report-7' -d '{"kind": "chat", "payload": {"prompt": "What happened?"}}'
"""
SUBMIT_MANY: Final = """
Up to 1,000 jobs in one transaction. The answer has an entry for each, in order: the job, or `"error":
"not_unique"` and the twin's id as `job` for one whose twin has not ended. Any other fault refuses all of them.
An `Idempotency-Key` makes it repeatable, as it does a single submit: the same jobs, the same ones left out.

    curl -sS $FARM/api/v1/jobs/bulk -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
         -d '{"jobs": [{"kind": "chat", "payload": {}}, {"kind": "chat", "payload": {}, "priority": -5}]}'
"""
LIST: Final = """
The jobs that you may see, newest first: yours, those of your groups; all of them for operators.

    curl -sS "$FARM/api/v1/jobs?status=in_progress&kind=chat&limit=20" -H "Authorization: Bearer $TOKEN"

`next` is the `cursor` of the following page, null on the last one.
"""
SHOW: Final = """
`attempts` has the latest first, 50 at most. What one wrote and handed in stays there after it was lost: see `fence`
of the calls below.

    curl -sS $FARM/api/v1/jobs/$JOB -H "Authorization: Bearer $TOKEN"
"""
READ_OUTPUT: Final = """
    curl -sS "$FARM/api/v1/jobs/$JOB/output?after=-1" -H "Authorization: Bearer $TOKEN"

At most 500 pieces come at once: ask again with `after` one less than `next_seq` until none come. Without `fence`
it is the attempt that runs or succeeded; of any other job the last that wrote anything.
"""
GET_FILE: Final = """
    curl -sS $FARM/api/v1/jobs/$JOB/files/picture.png -H "Authorization: Bearer $TOKEN" -o picture.png
"""
EVENTS: Final = """
Server-sent events, until the job has ended:

* `job`: the job as JSON, without its payload, now and whenever it changed;
* `output`: `{"fence": 1, "seq": 0, "text": "..."}`, every piece once;
* `end`: `{"status": "success"}`; nothing comes after it. In a browser, close the EventSource then.

Every event has an `id`. After a lost connection send the last one as `Last-Event-ID` (a browser does so by
itself), and nothing is lost or repeated. A comment comes every 15 s, so that nobody takes the silence for a
dead connection.

    curl -sSN $FARM/api/v1/jobs/$JOB/events -H "Authorization: Bearer $TOKEN"
"""
EVENTS_OF_MANY: Final = """
The events of up to 50 jobs in one stream, as those of one job, each with the number of its `job`: a browser opens six
connections to a host over HTTP/1.1, so a page that follows many jobs follows them by one. The stream closes when all
have ended. The `id` of an event says how far all of them are. After a lost connection the `end` of a job that had ended
comes again. 404 where one of them is not there, or not yours to see.

    curl -sSN "$FARM/api/v1/jobs/events?ids=$JOB" -H "Authorization: Bearer $TOKEN"
"""
CANCEL: Final = """
    curl -sS -X POST $FARM/api/v1/jobs/$JOB/cancel -H "Authorization: Bearer $TOKEN"

`verdict` says what it came to: `canceled_before_start`, `canceled_before_retry`, `canceled_while_running`
(the status is canceled now, and whatever the worker still says is refused), or `too_late`: it had ended,
`status` says how.
"""
RETRY: Final = """
Retries the job: submits it again, as a new job whose `retry_of` names the old one, with its queue and priority: 403
`forbidden` where you could not submit it so. 409 `not_ended` while it has not
ended, `not_unique` while its owner has another with its `unique_key`. An `Idempotency-Key` makes it repeatable, as it
does a submit.

    curl -sS -X POST $FARM/api/v1/jobs/$JOB/retry -H "Authorization: Bearer $TOKEN"
"""
RUN_NOW: Final = """
Makes a job that is due later due now; one that is due already stays as it is. 409 `not_waiting` for one that runs or
has ended, 409 `waits_for_limit` while the tokens of its limit have not come in, 409 `waits_for_budget` while a
budget has no room for it.

    curl -sS -X POST $FARM/api/v1/jobs/$JOB/run_now -H "Authorization: Bearer $TOKEN"
"""
CHANGE_PRIORITY: Final = """
    curl -sS $FARM/api/v1/jobs/$JOB/priority -H "Authorization: Bearer $TOKEN" \\
      -H "Content-Type: application/json" -d '{"priority": -10}'

Gives a job that waits another priority; it keeps its place among those of the same one. 409 `not_waiting` for one that
runs or has ended, 403 `forbidden` above what you may give.
"""
WHY: Final = """
    curl -sS $FARM/api/v1/jobs/$JOB/why -H "Authorization: Bearer $TOKEN"

Every reason, the one that matters most first, each with its numbers and with `remedies`: what would change it, as a
code and a label, and `method` and `path` where it is a call that you may make.

| code | means | numbers |
| --- | --- | --- |
| `not_waiting` | it runs, or has ended | |
| `expired` | its `expires_at` has passed; it is about to be ended | `expires_at` |
| `waiting_for_limit` | the tokens of its kind's limit come in later | `limit`, `until`, `seconds` |
| `waiting_for_budget` | it waits for a budget's next window | `until`, `seconds` |
| `unconfirmed` | its last workers took it and never said a word: it may end them | `leases` |
| `not_due` | its `run_at` lies ahead | `run_at`, `seconds` |
| `queue_paused` | nothing of its queue is claimed | `since`; for operators `by` |
| `queue_full` | as many of its queue run as may | `ceiling`; for operators `running` |
| `no_worker` | no live worker's key allows its queue | of the last one `last_worker`, `last_seen_at` |
| `all_drained` | the live workers that could take it are drained | `drained`, `names` |
| `out_of_scope` | live workers do, but they serve other people's jobs only | for operators `others` |
| `not_asked` | live workers could take it, but their claims name other queues | `workers` |
| `no_label` | live workers could take it, but each lacks a label that it requires | `missing`, `nearest`, `workers` |
| `head_start` | a live worker has what it prefers and gets it first | `prefers`, `seconds` |
| `all_failed_it` | every live worker that could take it has failed it | `workers`, `until` |
| `stealers_busy` | only workers that steal from it could take it, none is idle | `workers`; for operators `busy` |
| `ahead` | the same workers take others first: of its queue (1000: or more), of other queues | `jobs`, `queues` |
| `expires` | beside the others: it ends by itself then, if no worker has begun it | `expires_at`, `seconds` |
| `next` | none of these: the next worker that asks takes it | |

Remedies: `wait`, `run_now`, `cancel`, `retry`, `resume_queue`, `raise_ceiling`, `raise_limit`, `raise_budget`,
`add_worker`, `undrain_worker`, `add_label`, `ask_for_queue` (of a worker whose process names other queues than its key
has).
"""
SCALE: Final = """
How much there is to do, and how many workers keep up with what arrives and have what waits begun within `drain_s`
seconds. For autoscalers: `deploy/keda` has an example.

    curl -sS "$FARM/api/v1/scale?queue=chat&drain_s=60" -H "Authorization: Bearer $TOKEN"

With `queue` the answer is flat; without it, `{"queues": [...]}`. The token is an operator's with the scope `read`, or
that of `/metrics`; 403 `forbidden` for other people, 422 `unknown_queue`.

`wanted_workers` is (`arrivals_per_s` x `mean_run_s` + `waiting` x the smaller of 1 and `mean_run_s` / `drain_s`),
rounded up, at least 1 and at most `ceiling`, but never fewer than `running`; all of it divided by
`jobs_per_worker`. 0 when nothing waits or runs. A paused queue wants what it runs. While no run has ended in an hour,
each waiting job counts as one.
"""

"""What the page at /api/docs says before its calls. Its examples run once FARM, KEY, JOB and LEASE are set."""

from typing import Final

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
here names a job, the message has it as `"job"`. Types: `claim heartbeat
heartbeat_many output finish finish_many release unclaim`.
An error is `{"type": "error", "ref": 1, "status": 409, "error": "lease_lost", "message": "..."}`. A claim with
`wait` is answered when there is a job, other calls meanwhile. Without being asked the farm says
`{"type": "stop", "job": 7, "fence": 1, "reason": "canceled"}` when this claim of a job was taken from the worker, which
may have got the job anew since, and, to one that claims without `wait`, `{"type": "work", "available": true}` once
there is something after a claim that got fewer jobs than it asked for, and `{"type": "share"}` when another worker
waits: give back by `unclaim` what you have not begun. It closes with code 4401 when the key is refused or revoked. A
message may have 10 MB; put `ref` before the long fields, and one that is larger is refused (413 `too_large`) under it.
"""

"""Rows of functions and of crons name a function by where it stands, and its arguments. Those that wait while a farm is
upgraded have the names from before, and a cluster of the version before knows no others: a parameter that is added has
a default, and one that goes is taken, and left unread, for a release."""

import importlib
from typing import Final

import pytest

from scheduling import registry

STORED: Final = [
    "accounts.operations.guests.end_sessions()",
    "accounts.operations.guests.retire_guests()",
    "accounts.operations.tokens.end_tokens()",
    "alerts.operations.fail_forgotten()",
    "alerts.operations.judge(readings)",
    "alerts.operations.record_failure(notification, error, attempt)",
    "alerts.operations.record_sent(notification)",
    "alerts.operations.send(notification)",
    "alerts.operations.watch()",
    "jobs.operations.bulk.mend()",
    "jobs.operations.bulk.step(bulk_id)",
    "jobs.operations.content.delete_content(job_ids)",
    "jobs.operations.content.delete_files(names)",
    "jobs.operations.from_crons.start_flow(template, values)",
    (
        "jobs.operations.from_crons.submit_job(kind, payload, job_queue=, job_priority=, unique_key=, on_conflict=, "
        "debounce=, requires=, prefers=, tags=)"
    ),
    "jobs.operations.janitor.delete_lost_files()",
    "jobs.operations.janitor.expire()",
    "jobs.operations.labels.forget_requirements()",
    "jobs.operations.rollup.measure_usage()",
    "jobs.operations.rollup.recount_usage()",
    "jobs.operations.rollup.roll_up()",
    "jobs.operations.scores.keep_scores(day, subject=)",
    "jobs.operations.scores.score_yesterday()",
    "metering.operations.rollup.forget()",
    "metering.operations.rollup.roll_up()",
    "openai_api.operations.steps.mend()",
    "openai_api.operations.steps.step(batch_id, chain, waited_s=)",
    "outbox.operations.endpoints.mail_owner(endpoint)",
    "outbox.operations.replays.replay_batch(wanted, by, after, until, matched)",
    "scheduling.operations.retention.retain(names=)",
    "webhooks.operations.activity.invalidate_digests()",
    "webhooks.operations.attempts.process(delivery, row_pointer=, number=)",
    "webhooks.operations.attempts.process_batch(deliveries)",
    "webhooks.operations.attempts.record_failure(delivery, error, row_pointer=)",
    "webhooks.operations.attempts.replay_batch(wanted, after, until, matched=, with_jobs=, by=)",
    "webhooks.operations.maintenance.drain_sandbox_queue()",
    "webhooks.operations.maintenance.forget_servers(configured)",
    "webhooks.operations.maintenance.note_answer(url, models)",
    "webhooks.operations.maintenance.note_silence(url, error)",
    "webhooks.operations.maintenance.reconcile()",
    "webhooks.operations.maintenance.refresh_model_catalog()",
    "webhooks.operations.maintenance.reschedule_stuck()",
]


def _described(name: str) -> str:
    parameters = registry.find(name).signature.parameters.values()
    return f"{name}({', '.join(one.name + '=' * (one.default is not one.empty) for one in parameters)})"


def test_functions_that_rows_name_are_where_they_say_and_take_what_they_did() -> None:
    assert [_described(one.partition("(")[0]) for one in STORED] == STORED


@pytest.mark.parametrize("app", ["jobs", "webhooks", "outbox", "alerts", "metering", "accounts", "openai_api"])
def test_new_ones_are_listed_here(app: str) -> None:
    importlib.import_module(f"{app}.operations")
    assert {one.name for one in registry.everything() if one.name.startswith(f"{app}.")} <= {
        one.partition("(")[0] for one in STORED
    }

"""Rows of functions and of crons name a function by where it stands. Those that wait while a farm is upgraded have the
name from before, and a cluster of the version before knows no other."""

import importlib
from typing import Final

import pytest

from scheduling import registry

STORED: Final = [
    "accounts.operations.guests.end_sessions",
    "accounts.operations.guests.retire_guests",
    "accounts.operations.tokens.end_tokens",
    "alerts.operations.fail_forgotten",
    "alerts.operations.judge",
    "alerts.operations.record_failure",
    "alerts.operations.record_sent",
    "alerts.operations.send",
    "alerts.operations.watch",
    "jobs.operations.bulk.mend",
    "jobs.operations.bulk.step",
    "jobs.operations.content.delete_content",
    "jobs.operations.content.delete_files",
    "jobs.operations.from_crons.start_flow",
    "jobs.operations.from_crons.submit_job",
    "jobs.operations.janitor.delete_lost_files",
    "jobs.operations.janitor.expire",
    "jobs.operations.labels.forget_requirements",
    "jobs.operations.rollup.measure_usage",
    "jobs.operations.rollup.recount_usage",
    "jobs.operations.rollup.roll_up",
    "jobs.operations.scores.keep_scores",
    "jobs.operations.scores.score_yesterday",
    "metering.operations.rollup.forget",
    "metering.operations.rollup.roll_up",
    "openai_api.operations.steps.mend",
    "openai_api.operations.steps.step",
    "outbox.operations.endpoints.mail_owner",
    "outbox.operations.replays.replay_batch",
    "scheduling.operations.retention.retain",
    "webhooks.operations.activity.invalidate_digests",
    "webhooks.operations.attempts.process",
    "webhooks.operations.attempts.process_batch",
    "webhooks.operations.attempts.record_failure",
    "webhooks.operations.attempts.replay_batch",
    "webhooks.operations.maintenance.drain_sandbox_queue",
    "webhooks.operations.maintenance.forget_servers",
    "webhooks.operations.maintenance.note_answer",
    "webhooks.operations.maintenance.note_silence",
    "webhooks.operations.maintenance.reconcile",
    "webhooks.operations.maintenance.refresh_model_catalog",
    "webhooks.operations.maintenance.reschedule_stuck",
]


def test_functions_that_rows_name_are_where_they_say() -> None:
    assert [registry.find(name).name for name in STORED] == STORED


@pytest.mark.parametrize("app", ["jobs", "webhooks", "outbox", "alerts", "metering", "accounts", "openai_api"])
def test_new_ones_are_listed_here(app: str) -> None:
    importlib.import_module(f"{app}.operations")
    assert {one.name for one in registry.everything() if one.name.startswith(f"{app}.")} <= {*STORED}

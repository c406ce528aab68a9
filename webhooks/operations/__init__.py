"""What can be done with the inbox. Each function is one use case, in one transaction unless it says otherwise."""

from webhooks.handlers.registry import Event, receives
from webhooks.operations.attempts import OPERATE, count_matching, process, process_batch, replay, replay_matching
from webhooks.operations.ingest import Kept, Verdict, keep
from webhooks.operations.job_starts import Trial, broken_rules, check_rule, start_again, try_rule
from webhooks.operations.maintenance import Health, drain_sandbox_queue, health, reconcile, refresh_model_catalog
from webhooks.operations.secrets import Sent, add, create_token, retire, revoke_tokens, rotate, send

"""The kind of the answers, and what the farm calls back when it moves their jobs."""

from examples.chat import limits, operations
from examples.chat.domain import answers
from jobs.operations import Kind, declare

# Jobs of this kind that come in by the API, or the page of jobs, are plain prompts; they take of the same limit.
CHAT = declare(
    Kind(name=answers.KIND, timeout_s=600, retry_when_lost=False, limit=limits.TOKENS, limit_count=1_000),
    prepare=operations.prepare,
    on_transition=operations.on_transition,
)

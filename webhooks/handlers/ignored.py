"""What is deliberately not handled, with the reason. Whatever else has no handler is ignored as unknown."""

from webhooks.handlers.registry import handles

IGNORED = (
    ("clerk", "email.created", "It carries other people's mail."),
    ("clerk", "sms.created", "It carries other people's messages."),
    ("clerk", "role.*", "Roles are shown as memberships name them."),
    ("clerk", "permission.*", "Permissions are not shown."),
    ("github", "check_run.* status", "A step of a check; the workflow's run is shown as a whole."),
    ("github", "check_suite.*", "A group of checks; the workflow's run is shown as a whole."),
    ("github", "workflow_job.*", "A part of a workflow's run, which is shown as a whole."),
    ("github", "workflow_run.requested workflow_run.in_progress", "Its end is shown."),
    ("github", "installation.* installation_repositories.*", "Which repositories an app may see is not shown."),
    ("github", "label.*", "Labels are shown as their issues name them."),
    ("github", "milestone.*", "Milestones are not shown."),
    ("github", "star.*", "It is shown as watch.started."),
    ("jira", "worklog_created worklog_updated worklog_deleted", "How long people worked is not shown."),
    ("jira", "issuelink_created issuelink_deleted", "Links between issues are not shown."),
    ("jira", "attachment_created attachment_deleted", "Attachments are not shown."),
    ("confluence", "test", "The Test connection button, which only needs a response."),
    ("stripe", "charge.succeeded payment_intent.*", "Its invoice or checkout shows the same payment."),
    ("stripe", "charge.updated", "It changes nothing that is shown."),
    ("stripe", "payment_method.*", "Means of payment are not kept."),
    ("stripe", "invoiceitem.*", "An invoice is shown as a whole."),
    ("stripe", "plan.* price.* product.*", "The catalog is not kept; a subscription names its price."),
)


for source, types, reason in IGNORED:  # a handler that takes nothing in: its answer is the delivery's note
    handles(source, *types.split())(lambda _event, reason=reason: reason)

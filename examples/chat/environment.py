"""The variables of the chat."""

VARIABLES = (
    ("JOBFARM_CHAT_TOKENS_PER_MINUTE", "positive", 300_000.0,
        "tokens of language models that all answers of the chat together may take"),
)  # fmt: skip

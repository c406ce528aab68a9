"""An app as a team has one of its own: JOBFARM_APPS names it to processes that a test starts. The test does not load
it, so that no other test meets its rule."""

RULE = "in code"

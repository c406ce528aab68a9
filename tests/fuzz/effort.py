"""How much is tried: the same few inputs in each run of the suite, or as many new ones as the environment asks for."""

import os

from hypothesis import HealthCheck, Phase, settings

from tests.effort import share

# So many inputs for each call and each socket, drawn anew each time; see docs/chaos.md.
_EXAMPLES = os.environ.get("JOBFARM_FUZZ_EXAMPLES")


def effort(*, examples: int) -> settings:
    """Settings of a fuzzer that tries so many inputs (`tests.effort`), or as many as the environment asks for."""
    return settings(
        max_examples=int(_EXAMPLES) if _EXAMPLES else share(examples, of=2),
        derandomize=_EXAMPLES is None,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if _EXAMPLES else [Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )

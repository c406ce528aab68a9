"""What can be wrong with how the farm is to be observed."""


class ObservingError(Exception):
    """The farm cannot be observed so."""


class UnknownLogForm(ObservingError):
    """JOBFARM_LOG names no form of log lines; there are text and json."""

    def __init__(self, *, form: str) -> None:
        super().__init__(f"JOBFARM_LOG is {form!r}; it may be text or json.")
        self.form = form


class NoMetricsToken(ObservingError):
    """Numbers are shown to nobody without a token: set JOBFARM_METRICS_TOKEN."""

    def __init__(self) -> None:
        super().__init__("--metrics takes JOBFARM_METRICS_TOKEN: what Prometheus has to show as bearer.")

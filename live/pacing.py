"""How much may be requested in a time: a token bucket of one process. Reads no clock."""


class Bucket:
    """`capacity` at once, and `rate` a second after that. Full at first."""

    def __init__(self, *, capacity: float, rate: float, now: float) -> None:
        self._capacity = capacity
        self._rate = rate
        self._tokens = capacity
        self._at = now

    def take(self, count: float, *, now: float) -> float:
        """Take `count`, into debt if need be; the seconds until the debt is paid, 0 where there is none."""
        self._fill(now)
        self._tokens -= count
        return max(0.0, -self._tokens / self._rate)

    def has(self, count: float, *, now: float) -> bool:
        self._fill(now)
        return self._tokens >= count

    def is_full(self, *, now: float) -> bool:
        """Whether nothing of what was taken is missing any more."""
        return self.has(self._capacity, now=now)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._capacity, self._tokens + (now - self._at) * self._rate)
        self._at = now

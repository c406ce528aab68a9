"""A page that shows jobs live, as a browser has it open: one socket, opened again when it is lost or silent."""

import json
import random
import threading
import time
from itertools import cycle
from typing import Any

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.chaos.farm import WEBS, Farm
from tests.chaos.load import Book

MOST = 150  # at a time; a socket may have 200
# Between two messages: one weighs ten watch requests, and a socket may ask for ten a second (`live.protocol`).
TURN_S = 2.0
SILENT_S = 6.0  # a browser waits longer, but it has more time
LOOK_S = 0.3
ENDED = frozenset({"success", "failed", "canceled", "timed_out"})


class Watcher:
    """Watches every job that was acknowledged until it shows an end. `shown` is what the page says of each."""

    def __init__(self, farm: Farm, book: Book) -> None:
        self.shown: dict[int, str] = {}
        self.lost = 0
        self._farm, self._book = farm, book
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Open the page."""
        self._thread.start()

    def stop(self) -> None:
        """Close it."""
        self._is_over.set()
        self._thread.join()

    def lies(self, stored: dict[int, str]) -> list[str]:
        """What it shows otherwise than it is `stored`."""
        return [
            f"a page that is open since shows job {pk} as {self.shown.get(pk)}, and it is {stored[pk]}"
            for pk in self._book.jobs
            if pk in stored and self.shown.get(pk) != stored[pk]
        ]

    def _run(self) -> None:
        rng = random.Random(0)
        for web in cycle(WEBS):
            if self._is_over.is_set():
                return
            try:
                self._watch(web)
            except Exception:  # whatever it is, a page opens another socket
                self.lost += 1
                self._is_over.wait(rng.uniform(0, 1))

    def _watch(self, web: str) -> None:
        base = self._farm.url(web)
        headers = {"Cookie": f"sessionid={self._farm.keys.session}"}
        url = f"ws{base.removeprefix('http')}/ws/live/"
        with connect(url, origin=Origin(base), additional_headers=headers, open_timeout=5, close_timeout=1) as socket:
            watched: set[int] = set()
            last_seen_at, turn_at = time.monotonic(), 0.0
            while not self._is_over.is_set():
                if time.monotonic() > turn_at + TURN_S:
                    turn_at = time.monotonic()
                    self._take_turn(socket, watched)
                try:
                    self._receive(json.loads(socket.recv(timeout=LOOK_S)))
                    last_seen_at = time.monotonic()
                except TimeoutError:
                    if time.monotonic() > last_seen_at + SILENT_S:
                        raise

    def _take_turn(self, socket: ClientConnection, watched: set[int]) -> None:
        """Send what has gathered as one message, as a browser does."""
        ended = [pk for pk in watched if self.shown.get(pk) in ENDED]
        watched.difference_update(ended)
        open_jobs = [pk for pk in list(self._book.jobs) if self.shown.get(pk) not in ENDED]
        new = [pk for pk in open_jobs if pk not in watched][: MOST - len(watched)]
        watched.update(new)
        watch = [{"id": str(pk), "name": "job-json", "args": {"job_id": pk}} for pk in new]
        socket.send(json.dumps({"unwatch": [str(pk) for pk in ended], "watch": watch, "ping": 1}))

    def _receive(self, message: Any) -> None:
        if "state" in message:
            self.shown[int(message["state"])] = message["data"]["job"]["status"]

"""The page while the job runs: looks at the agents again and again, and a server on loopback alone.

Other users of the machine reach its loopback as well. So the page lies below a path that only this process has told; and a name
that somebody else's page has made stand for 127.0.0.1 is refused.
"""

from __future__ import annotations

import dataclasses
import http.server
import secrets
import signal
import sys
import threading
import time
import urllib.parse

from kedge.report.gather import GatherError, Sources, StoreAccount, account_of, read_store
from kedge.report.looks import Looks
from kedge.report.model import Job
from kedge.report.page import Live, page

_STORE_EVERY_SECONDS = 10.0  # at most so often the store is read, which others use
_LONG = 10  # the store is read at most a tenth of the time
_STORE_SECONDS = 30.0  # for the store to answer
_FIRST_SECONDS = 10.0  # that a browser waits for the first look


class Watch:
    """Looks in a thread of its own; account() gives what is known now."""

    def __init__(self, sources: Sources, word: str, job: str, interval: float) -> None:
        self._sources, self._word, self._job, self._interval = sources, word, job, interval
        self._lock = threading.Lock()
        self._looks: dict[str, Looks] = {}
        self._stores: dict[str, StoreAccount] = {}
        self._jobs: list[str] = []
        self._missing: list[str] = []
        self._read_store_at = 0.0
        self._over, self._first = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """No look is under way afterwards."""
        self._over.set()
        self._sources.end()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except (ValueError, KeyError, OSError) as error:
                with self._lock:
                    self._missing = [f"What the tools say cannot be read: {error}"]
            self._first.set()
            if self._over.wait(self._interval):
                return

    def look(self) -> None:
        """At all agents, and at times at the store."""
        looks, missing = self._sources.look()
        # Jobs with processes first, so that the page begins with one that runs.
        running = {session["job"] for look in looks for session in look["sessions"]}
        names = sorted({job["job"] for look in looks for job in look["jobs"]}, key=lambda name: (name not in running, name))
        wanted = self._job or self._word
        names = [wanted] if wanted else names
        stores = self._stores
        if time.monotonic() >= self._read_store_at:
            began = time.monotonic()
            stores = {}
            for name in names or [""]:
                try:
                    store = read_store(self._sources, self._word, self._job or ("" if self._word else name))
                    stores[store.job] = store
                except GatherError as error:
                    missing.append(f"The store: {error}")
            self._read_store_at = time.monotonic() + max(_STORE_EVERY_SECONDS, _LONG * (time.monotonic() - began))
        else:
            missing += [why for why in self._missing if why.startswith("The store: ")]
        with self._lock:
            self._stores, self._missing = stores, missing
            self._jobs = list(dict.fromkeys([*stores, *names])) if not wanted else list(stores) or names
            for name in self._jobs or [""]:
                watched = self._looks.setdefault(name, Looks(name))
                for look in looks:
                    watched.take(look)

    def account(self, number: int) -> tuple[Job, list[str]]:
        """Of the job of that number, and the names of all; the first time after a look."""
        self._first.wait(_FIRST_SECONDS)
        with self._lock:
            name = self._jobs[number] if number < len(self._jobs) else ""
            made = account_of(name, self._stores.get(name), self._looks.get(name) or Looks(name))
            made.missing += [f"{why}." for why in self._missing]
            return made, list(self._jobs)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, watch: Watch, interval: float) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.watch, self.interval, self.secret = watch, interval, secrets.token_urlsafe(16)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{self.secret}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = 30

    def do_GET(self) -> None:
        asked = urllib.parse.urlsplit(self.path)
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost") or not secrets.compare_digest(asked.path.encode(), f"/{self.server.secret}/".encode()):
            self.send_error(404)
            return
        number = urllib.parse.parse_qs(asked.query).get("job", ["0"])[0]
        made, jobs = self.server.watch.account(int(number) if number.isascii() and number.isdigit() else 0)
        text = page(made, Live(max(self.server.interval, 0.5), jobs, secrets.token_urlsafe(16))).encode()
        self.send_response(200)
        for name, value in (("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(text))), ("Cache-Control", "no-store"),
                            ("Referrer-Policy", "no-referrer"), ("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY")):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nobody wants to read of each look."""


def serve(sources: Sources, word: str, job: str, port: int, interval: float) -> int:
    """Until SIGINT or SIGTERM; prints the address once it answers. OSError: the port is taken."""
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before any thread is there: they are waited for below, by none but this one
    watch = Watch(dataclasses.replace(sources, store_seconds=_STORE_SECONDS), word, job, interval)
    with _Server(port, watch, interval) as server:
        watch.start()
        teller = threading.Thread(target=server.serve_forever)
        teller.start()
        try:
            print(f"{server.url}", flush=True)
            print("The page is at the address above, for this machine alone. Ctrl-C ends it.", file=sys.stderr, flush=True)
            signal.sigwait(ends)
        finally:
            watch.end()
            server.shutdown()
            teller.join()
    return 0

"""A real browser without a window, driven over a pipe by the DevTools protocol: no port, and no library."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_PROGRAMS = ("chromium-headless-shell", "chromium")
_ANSWER_SECONDS = 60.0

# What is wrong with the text of a page as it is drawn, in words; empty: nothing. A label is clipped when its box ends before its
# text does, and overlaps another when both are drawn in the same place.
FAULTS = """
(() => {
  const faults = [], width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) faults.push(`the page is ${document.documentElement.scrollWidth} px wide in ${width}`);
  const isDrawn = one => one.checkVisibility({contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true});
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest("title, script, style") || !isDrawn(parent)) continue;
    const size = parseFloat(getComputedStyle(parent).fontSize);
    if (size < 11) faults.push(`"${node.data.trim()}" is ${size} px high`);
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.width < 1 || box.height < 1) continue;
      const scroll = parent.closest(".scroll");
      if (!scroll && (box.left < -0.5 || box.right > width + 0.5)) faults.push(`"${node.data.trim()}" ends outside of the window`);
      const card = parent.closest("section, .tile");
      if (card && !scroll) {
        const around = card.getBoundingClientRect();
        if (box.left < around.left - 0.5 || box.right > around.right + 0.5) faults.push(`"${node.data.trim()}" ends outside of its card`);
      }
      texts.push({text: node.data.trim(), box, scroll});
    }
  }
  texts.sort((one, other) => one.box.top - other.box.top);
  texts.forEach((one, at) => {
    for (let next = at + 1; next < texts.length && texts[next].box.top < one.box.bottom; ++next) {
      const other = texts[next], across = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const down = Math.min(one.box.bottom, other.box.bottom) - other.box.top;
      if (!one.scroll && !other.scroll && across > 1 && down > 4) faults.push(`"${one.text}" and "${other.text}" overlap`);
    }
  });
  return faults;
})()
"""

# Texts whose contrast with what is behind them is below the 4.5 of WCAG 2.1 AA, and marks and bars below its 3.
PALE = """
(() => {
  const pale = [];
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (one, other) => (Math.max(light(one), light(other)) + 0.05) / (Math.min(light(one), light(other)) + 0.05);
  for (const one of document.querySelectorAll("h1, h2, p, dt, dd, dd small, figcaption, .label, .label small, .value, summary, footer, .key li, svg text, a, .trouble *")) {
    if (!one.textContent.trim()) continue;
    const style = getComputedStyle(one), colour = parse(one.closest("svg") ? style.fill : style.color);
    const found = contrast(colour, behind(one));
    if (found < 4.5) pale.push(`"${one.textContent.trim().slice(0, 40)}": ${found.toFixed(2)}`);
  }
  for (const one of document.querySelectorAll("svg .bar, svg .mark")) {
    if (parseFloat(getComputedStyle(one).opacity) < 1) continue;
    const found = contrast(parse(getComputedStyle(one).fill), behind(one));
    if (found < 3) pale.push(`${one.getAttribute("class")}: ${found.toFixed(2)}`);
  }
  return pale;
})()
"""


class Browser:
    """One process with one page. Everything of it is gone after the `with`."""

    def __init__(self) -> None:
        program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
        assert program, "no Chromium: scripts/setup installs chromium-headless-shell"
        self._folder = Path(tempfile.mkdtemp(prefix="kedge-browser-"))
        in_browser, self._write = os.pipe()
        self._read, out_browser = os.pipe()
        # The browser reads at descriptor 3 and writes at 4.
        words = [
            "bash", "-c", f'exec "$@" 3<&{in_browser} 4>&{out_browser}', "bash", program, "--headless", "--remote-debugging-pipe", "--no-sandbox",
            "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
            f"--user-data-dir={self._folder}", "about:blank",
        ]  # fmt: skip
        self._log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(
            words, pass_fds=(in_browser, out_browser), stdout=self._log, stderr=self._log, start_new_session=True, env=os.environ | {"HOME": str(self._folder)}
        )
        os.close(in_browser)
        os.close(out_browser)
        self._received, self._number, self._session = b"", 0, ""
        self.requests: list[str] = []  # that pages have made, but for themselves
        self.messages: list[str] = []  # errors and warnings of pages

    def __enter__(self) -> Browser:
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        os.close(self._write)
        os.close(self._read)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> Any:
        """The answer to one command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters} | ({"sessionId": self._session} if self._session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        number, end = self._number, time.monotonic() + _ANSWER_SECONDS
        while True:
            answer = self._next(end)
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self, end: float) -> Any:
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._read], [], [], max(end - time.monotonic(), 0.0))
            received = os.read(self._read, 1 << 20) if ready else b""
            assert received, f"the browser does not answer\n{(self._folder / 'log').read_text(errors='replace')}"
            self._received += received
        message, _, self._received = self._received.partition(b"\0")
        event = json.loads(message)
        if event.get("method") == "Network.requestWillBeSent" and event["params"]["type"] != "Document":
            self.requests.append(event["params"]["request"]["url"])
        if event.get("method") == "Log.entryAdded":
            self.messages.append(event["params"]["entry"]["text"])
        if event.get("method") == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(event["params"]))
        return event

    def window(self, width: int, height: int, scheme: str) -> None:
        """As of a screen of that size whose user likes it "light" or "dark"."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        """Returns when the page is loaded."""
        self.requests.clear()
        self.messages.clear()
        self.call("Page.navigate", url=address)
        end = time.monotonic() + _ANSWER_SECONDS
        while self._next(end).get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        """Of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        whole = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=whole | {"scale": 1})
        path.write_bytes(base64.b64decode(shot["data"]))

"""A headless Chromium, driven over its DevTools protocol, and what its page said on the console.

The protocol is https://chromedevtools.github.io/devtools-protocol/; aiohttp, which Ray's dashboard brings along, speaks
to its socket. Debian has the browser as `chromium`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    *(
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-default-browser-check"),
)
_WAIT_S = 60.0
WIDE, PHONE = (1280, 900), (390, 844)


_CONTRASTS = """(selectors) => {
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const channels = (text) => text.match(/[0-9.]+/g).slice(0, 3).map((part) => linear(part / 255));
  const luminance = (text) => channels(text).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const clear = (colour) => colour.endsWith(", 0)");
  const ground = (element) => {
    let at = element;
    while (at.parentElement && clear(getComputedStyle(at).backgroundColor)) at = at.parentElement;
    return getComputedStyle(at).backgroundColor;
  };
  const contrast = (element) => {
    const own = luminance(getComputedStyle(element).color);
    const [dark, light] = [own, luminance(ground(element))].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const found = selectors.map((selector) => [selector, document.querySelector(selector)]);
  return Object.fromEntries(found.filter(([, element]) => element).map(([name, element]) => [name, contrast(element)]));
}"""


def find_browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@dataclass
class Browser:
    """One page. `said` collects what a person would find red in the console: errors, exceptions, refused content."""

    said: list[str] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)

    def __enter__(self) -> Browser:
        found = find_browser()
        assert found is not None
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._runner = asyncio.Runner()
        self._last = 0
        home = f"--user-data-dir={self._home.name}"
        words = [found, *_FLAGS, home, "--remote-debugging-port=0", "about:blank"]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)
        try:
            self._runner.run(self._connect())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._session.close())
        self._end()

    def _end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._runner.close()
        self._home.cleanup()

    async def _connect(self) -> None:
        port = await self._port()
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as reply:
            pages = [page for page in await reply.json() if page["type"] == "page"]
        self._socket = await self._session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._send(f"{domain}.enable")

    async def _port(self) -> int:
        """What the browser writes down once it listens."""
        file = Path(self._home.name) / "DevToolsActivePort"
        async with asyncio.timeout(_WAIT_S):
            while not (file.exists() and (lines := file.read_text().split())):
                assert self._process.poll() is None, "the browser has ended"
                await asyncio.sleep(0.05)
        return int(lines[0])

    async def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        await self._socket.send_json({"id": self._last, "method": method, "params": parameters})
        async with asyncio.timeout(_WAIT_S):
            while True:
                message = json.loads((await self._socket.receive()).data)
                if message.get("id") == self._last:
                    assert "error" not in message, message["error"]
                    return dict(message["result"])
                self._hear(message)

    def _hear(self, message: dict[str, Any]) -> None:
        told = message["params"]
        match message["method"]:
            case "Runtime.exceptionThrown":
                self.said.append(told["exceptionDetails"].get("exception", {}).get("description", "exception"))
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "warning", "assert"):
                self.said.append(str(told["args"]))
            case "Log.entryAdded" if told["entry"]["level"] in ("error", "warning"):
                self.said.append(told["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked_for.append(told["request"]["url"].partition(",")[0])

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._runner.run(self._send(method, **parameters))

    def look(self, size: tuple[int, int] = WIDE, dark: bool = False) -> None:
        """As a screen of that size, in that scheme."""
        width, height = size
        phone = width < 500
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)

    def open(self, page: Path) -> None:
        """Load it and wait until its stage shows an episode."""
        self.send("Page.navigate", url=page.resolve().as_uri())
        self.wait_for(
            "document.readyState === 'complete' && document.getElementById('stage-title')?.textContent !== ''"
        )

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Until it is true: asked again each frame, by the page itself."""
        look = f"(() => {{ const value = ({expression}); return value ? value : null; }})()"
        for _ in range(int(_WAIT_S / 0.05)):
            if value := self.ask(look):
                return value
            self.ask("new Promise((done) => setTimeout(done, 50))")
        raise AssertionError(f"never came true: {expression}; the page said {self.said}")

    def complaints(self) -> list[str]:
        """What it `said` up to now."""
        self.ask("new Promise((done) => setTimeout(done, 50))")
        return self.said

    def contrasts(self, selectors: Sequence[str]) -> dict[str, float]:
        """Of the first element of each selector the contrast of text and ground, as WCAG 2.2 defines it."""
        return dict(self.ask(f"({_CONTRASTS})({json.dumps(selectors)})"))

    def click(self, id: str) -> None:
        self.ask(f"document.getElementById({json.dumps(id)}).click()")

    def press(self, key: str) -> None:
        """A key as a person presses it, on whatever has the focus."""
        text = {"text": key} if len(key) == 1 else {}
        codes = {"ArrowLeft": 37, "ArrowRight": 39, " ": 32}
        told = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper())), **text}
        self.send("Input.dispatchKeyEvent", type="keyDown", **told)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def choose(self, id: str, value: str) -> None:
        """Choose in a select, or type into a field."""
        field_, told = f"document.getElementById({json.dumps(id)})", json.dumps(value)
        self.ask(f"{field_}.value = {told}; {field_}.dispatchEvent(new Event('input', {{bubbles: true}}))")

    def text(self, id: str) -> str:
        return str(self.ask(f"document.getElementById({json.dumps(id)}).innerText"))

    def photograph(self, file: Path, whole: bool = False) -> None:
        """A PNG of what is seen, or of the whole page."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

"""The pages in a real browser: they fit, they are quiet, they ask for nothing, and the answer is on the first screen."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import identifiable
from identifiable.cli import main
from identifiable.results import Comparison, from_json

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (Debian: apt-get install chromium)")

SCREENS = ((360, 740), (800, 1200), (1400, 1000))
SCHEMES = {"light": 1, "dark": 0}  # as Blink numbers them
# Frames of the sizes of screens, each measured from outside: the pages themselves may run no script.
WATCH = """<!doctype html><meta charset="utf-8"><body><script>
const wanted = %s;
const found = [];
function measured(frame, page, screen) {
  const inner = frame.contentWindow, root = frame.contentDocument.documentElement;
  const box = (what) => { const e = root.querySelector(what); return e && e.getBoundingClientRect(); };
  const beyond = [...root.querySelectorAll("main *")].filter(
    (e) => e.getBoundingClientRect().right > root.clientWidth && !e.closest("nav, .scroll"));
  return {
    page, screen: screen[0], width: root.clientWidth, height: inner.innerHeight, scrolled: root.scrollWidth,
    beyond: beyond.slice(0, 3).map((e) => e.outerHTML.slice(0, 80)),
    dark: inner.matchMedia("(prefers-color-scheme: dark)").matches,
    ground: inner.getComputedStyle(frame.contentDocument.body).backgroundColor,
    sentence: box(".card .sentence"), card: box(".card"), ladder: box("figure"),
    drawn: [...root.querySelectorAll("img")].filter((i) => i.naturalWidth > 0).length,
    asked: inner.performance.getEntriesByType("resource").map((e) => e.name).filter((n) => !n.startsWith("data:")),
  };
}
for (const page of wanted.pages) for (const screen of wanted.screens) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `border:0;width:${screen[0]}px;height:${screen[1]}px`;
  frame.onload = () => {
    for (const fold of frame.contentDocument.querySelectorAll("details")) fold.open = wanted.open;
    found.push(measured(frame, page, screen));
    if (found.length === wanted.pages.length * wanted.screens.length) {
      const out = document.createElement("pre");
      out.id = "found";
      out.textContent = JSON.stringify(found);
      document.body.append(out);
    }
  };
  frame.src = page;
  document.body.append(frame);
}
</script>"""


def looked_at(folder: Path, pages: list[str], scheme: str = "light", *, opened: bool = False):
    """What a browser measures of each page on each screen, and what it writes to its console."""
    watch = folder / f"watch-{scheme}-{opened}.html"
    watch.write_text(WATCH % json.dumps({"pages": pages, "screens": SCREENS, "open": opened}), encoding="utf-8")
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", "--allow-file-access-from-files",
            f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=10000",
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", "--window-size=1500,1300", "--dump-dom", watch.as_uri(),
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    return json.loads(html.unescape(found[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pages of the demo and of two of its three models."""
    place = tmp_path_factory.mktemp("browser")
    assert main(["demo", "--quiet", "--json", str(place / "demo.json"), "--report", str(place / "demo.html")]) == 0
    three = from_json((place / "demo.json").read_text(encoding="utf-8"))
    assert isinstance(three, Comparison)
    two = replace(three, inputs=three.inputs[:2], pairs=three.pairs[:2], matrices=(), consensus=None, demo=None)
    two.report(place / "two.html")
    return place


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_fit_their_screens_and_open_with_sentence_and_ladder(folder, scheme):
    found, console = looked_at(folder, ["demo.html", "two.html"], scheme)
    assert not console
    assert len(found) == 2 * len(SCREENS)
    for seen in found:
        assert not seen["asked"], seen
        assert seen["dark"] == (scheme == "dark")
        assert seen["scrolled"] <= seen["width"], seen
        assert seen["sentence"]["top"] < seen["height"], seen
        if seen["screen"] >= 800:
            assert seen["card"]["bottom"] <= seen["ladder"]["top"] < seen["ladder"]["bottom"] <= seen["height"], seen
    assert {seen["drawn"] for seen in found if seen["page"] == "demo.html"} == {10}
    assert len({seen["ground"] for seen in found}) == 1


def test_pages_fit_with_every_fold_open(folder):
    found, _ = looked_at(folder, ["demo.html", "two.html"], opened=True)
    assert all(seen["scrolled"] <= seen["width"] for seen in found), found


def test_the_watch_notices_overflow_requests_and_errors(folder):
    (folder / "bad.html").write_text(
        """<!doctype html><meta http-equiv="Content-Security-Policy" content="script-src 'none'"><script>1</script>
        <div style="width:3000px"><p class="card">no answer</p><img src="http://example.invalid/x.png"></div>""",
        encoding="utf-8",
    )
    found, console = looked_at(folder, ["bad.html"])
    assert console
    assert all(seen["scrolled"] > seen["width"] for seen in found)
    assert all(seen["asked"] == ["http://example.invalid/x.png"] for seen in found)
    assert all(seen["sentence"] is None for seen in found)


def test_pages_name_no_address_to_load(folder):
    for name in ("demo.html", "two.html"):
        text = (folder / name).read_text(encoding="utf-8")
        assert not re.findall(r"""(?:src|href)=["'](?!#|data:)|url\(|@import""", text)
    assert (
        identifiable.load(folder / "demo.json").report(folder / "again.html").read_bytes()
        == (folder / "demo.html").read_bytes()
    )

"""Take the pictures of a report for docs/report: both widths, both colour schemes, by headless Chromium.

python tools/screenshots.py REPORT.html docs/report
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
HEIGHTS: Final = {1280: 2400, 390: 4200}
"""Width in pixels to the most that a picture shows: each file stays below 400 KB."""
SCHEMES: Final = {"dark": 0, "light": 1}
"""Colour scheme to what the browser calls it."""
QUIET: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--disable-lcd-text", "--hide-scrollbars",
    "--proxy-server=127.0.0.1:9", "--allow-file-access-from-files",
)  # fmt: skip
PROBE: Final = """<!DOCTYPE html><title>probe</title>{frames}<script>
onload = () => {{ for (const one of document.querySelectorAll("iframe")) {{
  const page = one.contentDocument, root = page.documentElement;
  const wide = [...page.querySelectorAll("body *")].filter((node) =>
    node.getBoundingClientRect().right > root.clientWidth + 1 && !node.closest(".scroll, .skip, .unseen"));
  document.body.append(`[${{one.width}} ${{root.scrollWidth}} ${{root.scrollHeight}} ${{wide.length}} `
    + `${{page.getElementById("theme").hidden}}]`);
}} }};
</script>"""


def browser() -> str | None:
    """Return the command of an installed browser, None without one."""
    return next((name for name in BROWSERS if shutil.which(name)), None)


def _run(*words: str) -> str:
    with tempfile.TemporaryDirectory(prefix="frt-browser-") as folder:
        command = [browser() or BROWSERS[0], *QUIET, f"--user-data-dir={folder}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def measure(page: Path, widths: tuple[int, ...]) -> dict[int, tuple[int, int, int, bool]]:
    """Lay a page out in several widths.

    Returns:
        Width to the width and height of its content, how many elements are cut off by the edge, and whether its own
        script ran.
    """
    frames = "".join(
        f'<iframe src="{page.resolve().as_uri()}" width="{width}" height="900"></iframe>' for width in widths
    )
    with tempfile.TemporaryDirectory(prefix="frt-probe-") as folder:
        probe = Path(folder, "probe.html")
        probe.write_text(PROBE.format(frames=frames), encoding="utf-8")
        text = _run("--dump-dom", probe.as_uri())
    found = re.findall(r"\[(\d+) (\d+) (\d+) (\d+) (true|false)\]", text)
    return {int(width): (int(w), int(h), int(cut), hidden == "false") for width, w, h, cut, hidden in found}


def take(page: Path, out: Path) -> list[Path]:
    """Take every picture of a page and return the files."""
    out.mkdir(parents=True, exist_ok=True)
    sizes = measure(page, tuple(HEIGHTS))
    made = []
    for width, most in HEIGHTS.items():
        for scheme, number in SCHEMES.items():
            file = out / f"report-{width}-{scheme}.png"
            size = f"--window-size={width},{min(most, sizes[width][1])}"
            _run(
                f"--blink-settings=preferredColorScheme={number}", size, f"--screenshot={file}", page.resolve().as_uri()
            )
            made.append(file)
    return made


def main() -> int:
    """Take the pictures that the arguments ask for and return the exit status."""
    if len(sys.argv) != len(("script", "page", "folder")) or browser() is None:
        print(f"{__doc__}\nNeeds one of {', '.join(BROWSERS)}.", file=sys.stderr)
        return 4
    for file in take(Path(sys.argv[1]), Path(sys.argv[2])):
        print(f"{file} {file.stat().st_size >> 10} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

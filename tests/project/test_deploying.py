"""Claim: what the page "Deploying" says is what the server does: its files, options and metrics."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from edgespec.cli.commands.serve_command import serve
from edgespec.server.app import application

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guides/deploying.md").read_text(encoding="utf-8")


def test_the_unit_on_the_page_is_the_file():
    (unit,) = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
    assert unit == (ROOT / "examples/deploy/edgespec.service").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    text = (ROOT / "examples/deploy/edgespec.service").read_text(encoding="utf-8")
    unit = tmp_path / "edgespec.service"
    # The command has to be there.
    unit.write_text(text.replace("/opt/edgespec/bin/edgespec", sys.executable), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    of_the_unit = [line for line in done.stderr.splitlines() if "edgespec.service" in line]
    assert (done.returncode, of_the_unit) == (0, [])


def test_every_option_on_the_page_is_one_of_the_command():
    commands = re.findall(r"edgespec serve ([^`\n]+)", PAGE)
    named = {option for command in commands for option in re.findall(r"--[a-z-]+", command)}
    named |= set(re.findall(r"`(--(?:grace|host|queue|log-file|log-format|log-level)\b)", PAGE))
    known = {name for parameter in serve.params for name in parameter.opts}
    assert len(named) >= 5
    assert named <= known


def test_the_page_has_every_metric_and_no_other(tiny):
    with TestClient(application({"tiny": tiny}, {}), base_url="http://localhost") as client:
        client.post("/v1/completions", json={"prompt": "x", "max_tokens": 4})
        text = client.get("/metrics").text
    families = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE)
    shown = {name for name, kind in families if not name.endswith("_created")}
    listed = set(re.findall(r"^\| `(edgespec_\w+)` \|", PAGE, re.MULTILINE))
    assert listed == shown


def test_the_image_s_process_is_not_root():
    lines = (ROOT / "examples/deploy/Dockerfile").read_text(encoding="utf-8").splitlines()
    (user,) = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert int(user) > 0

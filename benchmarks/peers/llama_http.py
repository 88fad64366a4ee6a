"""Requests to llama.cpp's server."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from typing import Any


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as reply:
        answer: dict[str, Any] = json.load(reply)
        return answer


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health"):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False  # not listening yet, or still loading


def wait_until_healthy(url: str, server: subprocess.Popen[bytes]) -> None:
    while not healthy(url):
        if server.poll() is not None:
            raise RuntimeError(f"llama-server ended with status {server.returncode}")
        time.sleep(0.1)

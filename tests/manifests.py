"""Manifests, changed as no exporter writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgespec.artifact.manifest import MANIFEST, manifest_digest


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes a manifest and gives it a new digest, so that other checks are reached."""
    data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    change(data)
    data["digest"] = manifest_digest(data)
    (folder / MANIFEST).write_text(json.dumps(data), encoding="utf-8")

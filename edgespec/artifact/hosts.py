"""What an export can be made for: one kind of runtime or device, whose graphs differ from others.

An export for none of them runs on any machine, on the processor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["GPU", "HOSTS", "NPU", "WEB", "describe_made_for", "made_for"]

WEB = "web"  # onnxruntime-web in a browser
GPU = "gpu"  # a provider that keeps tensors in a device's memory: CUDA, WebGPU
NPU = "npu"  # a provider whose compiler takes fixed shapes: Qualcomm's
HOSTS = (WEB, GPU, NPU)
TITLES = {
    WEB: "browsers (--for web)",
    GPU: "a GPU (--for gpu), for any γ and capacity",
    NPU: "an NPU (--for npu)",
}


def made_for(manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a folder's graphs were made for, from its manifest as JSON; None for any machine.

    Returns:
        "host"; where shapes are fixed, too: "gammas", drafted tokens that a call verifies, and
        "prompt_rows", "capacity" and "source" as in `StaticCalls`.

    Raises:
        KeyError, TypeError, ValueError: it is damaged.
    """
    host = manifest.get("host")
    if host is None:
        return None
    found: dict[str, Any] = {"host": str(host)}
    for variant in manifest["target"]["variants"].values():
        static = variant.get("static")
        if static is not None:  # all variants have the same calls
            found["gammas"] = [int(rows) - 1 for rows in static["rows"]]
            found |= {name: static[name] for name in ("prompt_rows", "capacity", "source")}
            break
    return found


def describe_made_for(found: Mapping[str, Any] | None) -> str:
    """The same for people: "an NPU (--for npu): γ 1 or 4, …"."""
    if found is None:
        return "any machine"
    title = TITLES.get(found["host"], found["host"])
    if "gammas" not in found:
        return str(title)
    parts = [f"γ {' or '.join(map(str, found['gammas']))}"]
    if found["prompt_rows"] is not None:
        parts.append(f"prompts in pieces of {found['prompt_rows']} tokens")
    parts.append(f"capacity {found['capacity']}")
    if found["source"] is not None:
        parts.append(f"sources of up to {found['source']} tokens")
    return f"{title}: {', '.join(parts)}"

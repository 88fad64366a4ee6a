"""What a call of a target copies between the host and a device."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from edgespec.artifact.manifest import Exported
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import open_model
from edgespec.pair.pair import Pair
from edgespec_runtimes.ort.providers import CPU_TITLE
from edgespec_runtimes.ort.providing.sample_call import sample_inputs
from edgespec_runtimes.ort.session import open_session

POSITIONS = 4096  # of the cache in the call whose copies inside the graph are counted
Check = tuple[bool, str]  # whether it holds, and what was seen


def check_gpu_copies(
    folder: Path, exported: Exported, variant: str, device: Device, pair: Pair, rows: int
) -> Iterator[Check]:
    """A call copies tokens, positions and logits, and no keys and values, also inside the graph."""
    target = pair.target
    if not exported.is_encoder_decoder:
        target.prefill([5, 6, 7])
    before = target.copied_bytes
    target.score([5] * rows)
    copied = target.copied_bytes - before
    states = 0 if exported.is_encoder_decoder else 4 * exported.features * rows
    expected = 8 * rows + 4 * rows + 8 + 4 * rows * exported.vocab_size + states
    yield (
        copied == expected,
        f"a call of {rows} positions copies {copied} bytes; tokens, positions and logits are "
        f"{expected}",
    )
    decoder = folder / exported.variants[variant].graphs["decoder"]
    session = open_session(decoder, device, profiled=True)
    session.run(None, sample_inputs(session, POSITIONS))
    profile = Path(session.end_profiling())
    events = [event["args"] for event in json.loads(profile.read_text()) if "args" in event]
    profile.unlink()
    ran = {event["node_index"]: event for event in events if "provider" in event}.values()
    copies = [event for event in ran if event["op_name"].startswith("Memcpy")]
    inside = sum(int(event["output_size"]) for event in copies)
    left = Counter(
        event["op_name"] for event in ran if event["provider"] == CPU_TITLE and event not in copies
    )
    yield (
        inside < 4 * POSITIONS * exported.head_size,  # of one head
        f"{inside} bytes are copied inside the graph; of its {len(ran) - len(copies)} operators "
        f"the processor runs {dict(left)}",
    )


def check_npu_copies(
    folder: Path, exported: Exported, variant: str, device: Device
) -> Iterator[Check]:
    """A call of each width copies its own keys and values, logits, and rows of tables and masks."""
    static = exported.variants[variant].static
    assert static is not None, "a folder for NPUs"
    model = open_model(folder, exported, variant, device=device)
    model.prefill([3, 4, 3])
    decoder = model._decoder
    for rows in static.rows:
        before = decoder.bytes_copied
        model.score([3] * rows)
        copied = decoder.bytes_copied - before
        new = sum(8 * shape.kv_heads * shape.head_size * rows for shape in exported.cache_shapes)
        logits = 4 * rows * exported.vocab_size
        states = 4 * rows * exported.features
        rest = copied - new - logits - states
        yield (
            0 < rest <= 64 * static.capacity * rows * 4 + 64 * 1024,
            f"a call of {rows} rows copies {new} bytes of new keys and values, {logits} of logits, "
            f"{states} of hidden states, {rest} of rows of tables, masks and angles",
        )

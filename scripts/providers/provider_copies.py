"""What a call of a target copies between the host and a device."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from edgespec.artifact.manifest import Exported
from edgespec.device.device import Device
from edgespec.pair.generation import Generation, Stream
from edgespec.pair.opening.runtime import open_model
from edgespec.pair.pair import Pair
from edgespec_runtimes.ort.providers import CPU_TITLE
from edgespec_runtimes.ort.providing.sample_call import sample_inputs
from edgespec_runtimes.ort.session import open_session

__all__ = ["RoundCounts", "check_gpu_copies", "check_npu_copies"]

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
    for rows in static.rows:
        before = model.copied_bytes
        model.score([3] * rows)
        copied = model.copied_bytes - before
        new = sum(8 * shape.kv_heads * shape.head_size * rows for shape in exported.cache_shapes)
        logits = 4 * rows * exported.vocab_size
        states = 4 * rows * exported.features
        rest = copied - new - logits - states
        yield (
            0 < rest <= 64 * static.capacity * rows * 4 + 64 * 1024,
            f"a call of {rows} rows copies {new} bytes of new keys and values, {logits} of logits, "
            f"{states} of hidden states, {rest} of rows of tables, masks and angles",
        )


class RoundCounts:
    """What rounds cost: calls, and bytes that are copied. The first round of a text is not counted,
    for it has the prompt.

    Args:
        pair: whose models are counted.
    """

    def __init__(self, pair: Pair) -> None:
        models = {"target": pair.target, "draft": pair.draft}
        self._models = {name: model for name, model in models.items() if model is not None}
        self._calls: Counter[str] = Counter()
        self._copied: Counter[str] = Counter()
        self._rounds = 0

    def of(self, stream: Stream) -> Generation:
        """Takes the whole text of a stream."""
        for _ in stream:
            if len(stream.result.stats.rounds) == 1:
                self._count(-1)
                break
        for _ in stream:
            pass
        self._count(1)
        self._rounds += len(stream.result.stats.rounds) - 1
        return stream.result

    def _count(self, sign: int) -> None:
        for name, model in self._models.items():
            self._calls[name] += sign * model.calls
            self._copied[name] += sign * model.copied_bytes

    def __str__(self) -> str:
        rounds = max(self._rounds, 1)
        costs = (
            f"{self._calls[name] / rounds:.1f} calls of the {name} that copy "
            f"{self._copied[name] / rounds:.0f} bytes"
            for name in self._models
        )
        return f"a round, mean of {self._rounds}: {', '.join(costs)}"

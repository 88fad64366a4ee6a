"""The measured half of Table 2, with or without checkpoints.

T5 shapes with random weights cannot agree with each other, so each drafted token is accepted with
the paper's α, drawn at random; everything else of a round is done as it is: drafting, verification,
both laws, the residual. What is measured is what a machine makes of a given acceptance.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from edgespec_runtimes.jax_accept import synthetic_rule
from edgespec_runtimes.jax_path import JaxDecoder
from edgespec_runtimes.jax_weights import DTYPES, JaxModel, open_jax_model
from edgespec_runtimes.reproduce.paper import Paper, SpeedRow
from edgespec_runtimes.reproduce.report import Report
from edgespec_runtimes.reproduce.shapes import SIZES, config_of, random_t5
from edgespec_runtimes.reproduce.theory import expected_tokens, speedup_on_device
from edgespec_runtimes.reproduce.timing import call_seconds, loop_seconds

__all__ = ["Bench", "machine", "wallclock"]

TARGET = "T5-XXL"
CALLS = 16  # decoder calls in one timed loop


@dataclass(frozen=True)
class Bench:
    """Attributes:
    divisor: divides the shapes' widths, heads and vocabulary; 1 is the real size.
    number_format: "bf16" or "fp32".
    checkpoints: by size ("T5-XXL"); random weights for those that are not there.
    prompt, tokens: lengths of a source and of a text.
    texts: timed for each row; the acceptance differs from text to text.
    repeats: of each timed call; the median counts.
    """

    divisor: int = 1
    number_format: str = "bf16"
    checkpoints: Mapping[str, str] | None = None
    prompt: int = 64
    tokens: int = 128
    texts: int = 5
    repeats: int = 5


def wallclock(paper: Paper, bench: Bench, say: Callable[[str], object]) -> Report:
    """All rows of Table 2 on this machine, beside the paper's."""
    target = _model(TARGET, bench)
    vocabulary = target.network.vocab_size
    prompt = jnp.asarray(np.random.default_rng(0).integers(3, vocabulary, bench.prompt, np.int32))
    gammas = {row.gamma for row in paper.speed}
    verify = {rows: _call(target, rows, prompt, bench) for rows in {1, *(g + 1 for g in gammas)}}
    say(f"{TARGET}: t(1) = {1e3 * verify[1]:.2f} ms")
    plain = {t: _plain(target, prompt, t, bench) for t in (0, 1)}
    rows: dict[SpeedRow, dict[str, Any]] = {}
    for name in (size for size in SIZES if size != TARGET):
        draft = _model(name, bench)
        c = _call(draft, 1, prompt, bench) / verify[1]
        say(f"{name}: c = {c:.3f}")
        for row in (row for row in paper.speed if row.draft == name):
            v = verify[row.gamma + 1] / verify[1]
            rows[row] = _row(row, target, draft, prompt, bench, c, v, plain[row.temperature])
            say(f"{row.task} {name} T={row.temperature}: {rows[row]['speed-up']:.2f}")
        del draft
    notes = [
        paper.source,
        "α here is the paper's, drawn at random; S = tokens / (γc + v(γ+1)) with the tokens a "
        "round that were drawn",
        "prompts are left out of the times; the baseline is the same compiled loop at γ = 0",
    ]
    if bench.divisor > 1:
        notes.append(
            f"REDUCED: every width, head count and vocabulary divided by {bench.divisor}, depths "
            "kept; not the paper's models"
        )
    ordered = [rows[row] for row in paper.speed]
    title = f"Table 2 on {jax.devices()[0].device_kind}, synthetic acceptance"
    return Report("table2-measured", title, ordered, notes, machine() | _setting(bench, verify))


def _row(
    row: SpeedRow,
    target: JaxModel,
    draft: JaxModel,
    prompt: Any,
    bench: Bench,
    c: float,
    v: float,
    plain: float,
) -> dict[str, Any]:
    decoder = JaxDecoder(
        target,
        draft,
        gamma=row.gamma,
        rule=synthetic_rule(jnp.float32(row.alpha)),
        greedy=row.temperature == 0,
        prompt_capacity=bench.prompt,
        capacity=bench.tokens,
        ends=(),
    )
    seconds, tokens, rounds = loop_seconds(
        decoder, prompt, temperature=row.temperature, texts=bench.texts
    )
    assert decoder.traces == 1, "the loop was compiled again"
    predicted = speedup_on_device(tokens / rounds, row.gamma, c, v)
    measured = plain * tokens / seconds
    return {
        "task": row.task,
        "draft": row.draft,
        "T": row.temperature,
        "γ": row.gamma,
        "α": row.alpha,
        "c, paper": row.c,
        "c": c,
        "v(γ+1)": v,
        "tokens a round, expected": expected_tokens(row.alpha, row.gamma),
        "tokens a round": tokens / rounds,
        "expected, paper": row.expected_speedup,
        "measured, paper": row.measured_speedup,
        "S": predicted,
        "speed-up": measured,
        "of S": f"{measured / predicted:.0%}",
    }


def _plain(target: JaxModel, prompt: Any, temperature: int, bench: Bench) -> float:
    """Seconds a token of the compiled plain loop."""
    decoder = JaxDecoder(
        target,
        gamma=0,
        greedy=temperature == 0,
        prompt_capacity=bench.prompt,
        capacity=bench.tokens,
        ends=(),
    )
    seconds, tokens, _ = loop_seconds(
        decoder, prompt, temperature=temperature, texts=max(2, bench.texts // 2)
    )
    return seconds / tokens


def _call(model: JaxModel, rows: int, prompt: Any, bench: Bench) -> float:
    return call_seconds(
        model, rows, prompt=prompt, capacity=bench.tokens, calls=CALLS, repeats=bench.repeats
    )


def _model(size: str, bench: Bench) -> JaxModel:
    checkpoint = (bench.checkpoints or {}).get(size)
    if checkpoint:
        return open_jax_model(checkpoint, bench.number_format)
    return random_t5(config_of(size, bench.divisor), DTYPES[bench.number_format])


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    device = jax.devices()[0]
    processor = platform.processor()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    return {
        "device": f"{device.device_kind} ({device.platform})",
        "host": f"{processor}, {os.cpu_count()} cores, {platform.machine()}",
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def _setting(bench: Bench, verify: Mapping[int, float]) -> dict[str, Any]:
    costs = ", ".join(f"t({m}) = {1e3 * verify[m]:.2f} ms" for m in sorted(verify))
    checkpoints = ", ".join(bench.checkpoints or {}) or "none, random weights"
    return {
        "format": bench.number_format,
        "checkpoints": checkpoints,
        "target": costs,
        "n": f"{bench.texts} texts of {bench.tokens} tokens a row, prompt {bench.prompt}; "
        f"median of {bench.repeats} x {CALLS} calls",
    }

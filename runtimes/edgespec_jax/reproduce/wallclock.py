"""The measured half of Table 2, with or without checkpoints.

T5 shapes with random weights cannot agree with each other, so each drafted token is accepted with
the paper's α, drawn at random; everything else of a round is done as it is: drafting, verification,
both distributions, the residual. What is measured is what a machine makes of a given acceptance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import jax.numpy as jnp
import numpy as np

import jax
from edgespec_jax.jax_pair import JaxDecoder
from edgespec_jax.jax_verification import synthetic_rule
from edgespec_jax.jax_weights import DTYPES, JaxModel, open_jax_model
from edgespec_jax.reproduce.accelerator import machine
from edgespec_jax.reproduce.paper import Paper, SpeedRow
from edgespec_jax.reproduce.shapes import config_of, random_t5
from edgespec_jax.reproduce.table_report import Report
from edgespec_jax.reproduce.theory import expected_tokens, speedup_on_device
from edgespec_jax.reproduce.timing import CALLS, Text, call_timer, text_timer
from jax import Array

__all__ = ["Bench", "wallclock"]

TARGET = "T5-XXL"
Timer = Callable[[], float]


@dataclass(frozen=True)
class Bench:
    """Attributes:
    divisor: divides the shapes' widths, heads and vocabulary; 1 is the real size.
    number_format: "bf16" or "fp32".
    checkpoints: by size ("T5-XXL"); random weights for those that are not there.
    prompt, tokens: lengths of a source and of a text.
    texts: timed for each row; the acceptance differs from text to text.
    """

    divisor: int = 1
    number_format: str = "bf16"
    checkpoints: Mapping[str, str] | None = None
    prompt: int = 64
    tokens: int = 128
    texts: int = 5


@dataclass(frozen=True)
class _Target:
    """The target with what every row compares itself to: calls by rows, plain texts by T."""

    model: JaxModel
    prompt: Array
    calls: Mapping[int, Timer]
    plain: Mapping[int, Callable[[int], Text]]


def wallclock(paper: Paper, bench: Bench, say: Callable[[str], object]) -> Report:
    """All rows of Table 2 on this machine, beside the paper's."""
    target = _target(paper, bench)
    say(f"{TARGET}: t(1) = {1e3 * target.calls[1]():.2f} ms")
    rows: dict[int, dict[str, Any]] = {}
    for name in dict.fromkeys(row.draft for row in paper.speed):
        draft = _model(name, bench)
        call = call_timer(draft, 1, target.prompt, bench.tokens)
        for place, row in enumerate(paper.speed):
            if row.draft == name:
                rows[place] = _row(row, target, draft, call, bench)
                say(f"{row.task} {name} T={row.temperature}: {rows[place]['speed-up']:.2f}")
    title = f"Table 2 on {jax.devices()[0].device_kind}, synthetic acceptance"
    ordered = [rows[place] for place in sorted(rows)]
    setting = machine() | _setting(bench)
    return Report("table2-measured", title, ordered, _notes(paper, bench), setting)


def _target(paper: Paper, bench: Bench) -> _Target:
    model = _model(TARGET, bench)
    tokens = np.random.default_rng(0).integers(3, model.network.vocab_size, bench.prompt, np.int32)
    prompt = jnp.asarray(tokens)
    widths = {1, *(row.gamma + 1 for row in paper.speed)}
    plain = {
        t: text_timer(_decoder(bench, model, greedy=t == 0), prompt, t)
        for t in {row.temperature for row in paper.speed}
    }
    calls = {width: call_timer(model, width, prompt, bench.tokens) for width in widths}
    return _Target(model, prompt, calls, plain)


def _decoder(bench: Bench, target: JaxModel, *, greedy: bool, **drafting: Any) -> JaxDecoder:
    return JaxDecoder(
        target,
        greedy=greedy,
        ends=(),
        prompt_capacity=bench.prompt,
        capacity=bench.tokens,
        **drafting or {"gamma": 0},
    )


def _row(
    row: SpeedRow, target: _Target, draft: JaxModel, draft_call: Timer, bench: Bench
) -> dict[str, Any]:
    decoder = _decoder(
        bench,
        target.model,
        greedy=row.temperature == 0,
        draft=draft,
        gamma=row.gamma,
        rule=synthetic_rule(jnp.float32(row.alpha)),
    )
    fast = text_timer(decoder, target.prompt, row.temperature)
    one, several = target.calls[1], target.calls[row.gamma + 1]
    turns = [
        (fast(seed), target.plain[row.temperature](seed), draft_call(), one(), several())
        for seed in range(bench.texts)
    ]
    texts, plains, drafts, ones, verifications = zip(*turns, strict=True)
    assert decoder.traces == 1, "the loop was compiled again"
    tokens = sum(text.tokens for text in texts) / sum(text.rounds for text in texts)
    c, v = median(drafts) / median(ones), median(verifications) / median(ones)
    round_seconds = median(text.seconds / text.rounds for text in texts)
    measured = tokens * median(text.seconds / text.rounds for text in plains) / round_seconds
    predicted = speedup_on_device(tokens, row.gamma, c, v)
    return {
        "task": row.task,
        "draft": row.draft,
        "T": row.temperature,
        "γ": row.gamma,
        "α": row.alpha,
        "c, paper": row.c,
        "c": c,
        "t(1), ms": 1e3 * median(ones),
        "v(γ+1)": v,
        "tokens a round, expected": expected_tokens(row.alpha, row.gamma),
        "tokens a round": tokens,
        "expected, paper": row.expected_speedup,
        "measured, paper": row.measured_speedup,
        "S": predicted,
        "speed-up": measured,
        "of S": f"{measured / predicted:.0%}",
    }


def _model(size: str, bench: Bench) -> JaxModel:
    checkpoint = (bench.checkpoints or {}).get(size)
    if checkpoint:
        return open_jax_model(checkpoint, bench.number_format)
    return random_t5(config_of(size, bench.divisor), DTYPES[bench.number_format])


def _setting(bench: Bench) -> dict[str, Any]:
    return {
        "format": bench.number_format,
        "checkpoints": ", ".join(bench.checkpoints or {}) or "none, random weights",
        "n": f"{bench.texts} texts of {bench.tokens} tokens a row behind a prompt of "
        f"{bench.prompt}, in turns with as many plain ones and {bench.texts} times {CALLS} calls",
    }


def _notes(paper: Paper, bench: Bench) -> list[str]:
    notes = [
        paper.source,
        "α here is the paper's, drawn at random; S = tokens / (γc + v(γ+1)) with the tokens a "
        "round that were drawn; speed-up = tokens a round · plain step / round, medians of both",
        "prompts are left out of the times; the baseline is the same compiled loop at γ = 0",
    ]
    if bench.divisor > 1:
        notes.append(
            f"REDUCED: every width, head count and vocabulary divided by {bench.divisor}, depths "
            "kept; not the paper's models"
        )
    return notes

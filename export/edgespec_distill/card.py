"""The model card of a draft, and the same figures for machines."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from edgespec import __version__
from edgespec_distill.plan import Distillation, Plan
from edgespec_export.checkpoint.sources import Source

__all__ = ["RECORD", "write_card"]

RECORD = "distillation.json"


def write_card(folder: Path, source: Source, plan: Plan, found: Distillation) -> None:
    """Writes README.md and distillation.json into a finished checkpoint."""
    planned = {**asdict(plan), "start": _start(plan)}
    record = {"edgespec": __version__, "target": _name(source), "plan": planned}
    (folder / RECORD).write_text(
        json.dumps({**record, "result": asdict(found)}, indent=2) + "\n", encoding="utf-8"
    )
    (folder / "README.md").write_text(_card(_name(source), plan, found), encoding="utf-8")


def _name(source: Source) -> str:
    """A hub id, or the name of a folder or a file: where that lies is nobody's concern."""
    if Path(source.label).expanduser() == source.path:
        return source.path.resolve().name
    return source.label.rpartition(" → ")[2]


def _shape(plan: Plan) -> str:
    shape = _layers(plan.layers, "")
    if plan.encoder_layers is not None:
        shape = f"{_layers(plan.encoder_layers, 'encoder ')} and {_layers(plan.layers, 'decoder ')}"
    if plan.width:
        shape += f", width {plan.width}"
    if plan.eagle:
        shape += ", reads its target's hidden states"
    if plan.vocabulary:
        shape += f", {plan.vocabulary} of its tokens"
    return shape


def _start(plan: Plan) -> str | None:
    return None if plan.start is None else Path(plan.start).resolve().name


def _began(plan: Plan) -> str:
    return "the target's" if plan.start is None else f"those of the draft {_start(plan)}"


def _layers(count: int, which: str) -> str:
    return f"{count} {which}layer" + ("" if count == 1 else "s")


def _card(target: str, plan: Plan, found: Distillation) -> str:
    source = "the draft's own outputs" if plan.on_policy else "the target's outputs"
    loss = {"kl": "forward KL", "tv": "total variation"}[plan.loss]
    return f"""# A draft for {target}

It proposes tokens that the target checks, so that the target's own text comes sooner; by itself it
is a poor model. Made by `edgespec distill`, edgespec {__version__}. Its weights
began as {_began(plan)} and follow the target's licence. Pair it with its target:

    edgespec export TARGET THIS_FOLDER -o PAIR

| | |
|---|---|
| shape | {_shape(plan)}; {found.draft_parameters / 1e6:.1f}M parameters \
({found.draft_parameters / found.target_parameters:.1%} of the target's) |
| trained on | {source} after {found.prompts} prompts\
{f", {found.output_tokens} tokens" if found.output_tokens else ""} |
| training | {found.steps} steps, {found.minutes:.0f} minutes, {loss}, seed {plan.seed} |

| on {found.held_out} held-out prompts{", first guess of a round" if plan.eagle else ""} \
| before | after |
|---|---|---|
| greedy: same first choice | {found.before.greedy:.3f} | {found.after.greedy:.3f} |
| α at temperature 1: E Σ min(p, q) | {found.before.sampled:.3f} | {found.after.sampled:.3f} |

The figures hold for prompts like those it was trained on; on others expect less. Whatever it
proposes, the text stays the target's own.{_known(found)}
"""


def _known(found: Distillation) -> str:
    if found.known is None:
        return ""
    return f"""

On texts that it was trained on it has {found.known:.3f} (greedy): what lies between is what more
prompts can bring, what that lacks of 1 more steps or a larger draft."""

"""The model card of a draft, and the same figures for machines."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec import __version__

if TYPE_CHECKING:
    from edgespec_export.distill.run import Distillation, Plan

__all__ = ["RECORD", "write_card"]

RECORD = "distillation.json"


def write_card(folder: Path, target: str, plan: Plan, found: Distillation) -> None:
    """Writes README.md and distillation.json into a finished checkpoint."""
    record = {"edgespec": __version__, "target": target, "plan": asdict(plan)}
    (folder / RECORD).write_text(
        json.dumps({**record, "result": asdict(found)}, indent=2) + "\n", encoding="utf-8"
    )
    (folder / "README.md").write_text(_card(target, plan, found), encoding="utf-8")


def _card(target: str, plan: Plan, found: Distillation) -> str:
    encoder = f"{plan.encoder_layers} encoder and " if plan.encoder_layers else ""
    layers = "1 layer" if plan.layers == 1 else f"{plan.layers} layers"
    shape = f"{encoder}{layers}" + (f", width {plan.width}" if plan.width else "")
    if plan.eagle:
        shape += ", reads its target's hidden states"
    tokens = f", {plan.vocabulary} of its tokens" if plan.vocabulary else ""
    source = "the draft's own outputs" if plan.on_policy else "the target's outputs"
    loss = {"kl": "forward KL", "tv": "total variation"}[plan.loss]
    return f"""# A draft for {target}

It proposes tokens that the target checks, so that the target's own text comes sooner; by itself it
is a poor model. Made by `edgespec distill`, edgespec {__version__}. Pair it with its target:

    edgespec export TARGET THIS_FOLDER -o PAIR

| | |
|---|---|
| shape | {shape}{tokens}; {found.draft_parameters / 1e6:.1f}M parameters \
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

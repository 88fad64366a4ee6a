"""The model card of a draft, and the same figures as JSON."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from functools import partial
from pathlib import Path

from edgespec.version import VERSION
from edgespec_distill.plan import LOSS_NAMES, Plan
from edgespec_distill.result import Distillation
from edgespec_export.checkpoint.sources import Source

__all__ = ["RECORD", "write_card"]

RECORD = "distillation.json"
WIDTH = 100  # of the card's lines


def write_card(folder: Path, source: Source, plan: Plan, result: Distillation) -> None:
    """Writes README.md and distillation.json into a finished checkpoint."""
    planned = {**asdict(plan), "start": _start(plan)}
    record = {"edgespec": VERSION, "target": _name(source), "plan": planned}
    (folder / RECORD).write_text(
        json.dumps({**record, "result": asdict(result)}, indent=2) + "\n", encoding="utf-8"
    )
    (folder / "README.md").write_text(_card(_name(source), plan, result), encoding="utf-8")


def _name(source: Source) -> str:
    """A hub id, or the name of a folder or file without its path, which may be private."""
    if Path(source.label).expanduser() == source.path:
        return source.path.resolve().name
    return source.label.rpartition(" → ")[2]


def _shape(plan: Plan) -> str:
    shape = _counted(plan.layers, "layer")
    if plan.encoder_layers is not None:
        encoder = _counted(plan.encoder_layers, "encoder layer")
        shape = f"{encoder} and {_counted(plan.layers, 'decoder layer')}"
    if plan.share_encoder:
        shape += ", reads its target's encoder"
    if plan.width:
        shape += f", width {plan.width}"
    if plan.eagle:
        shape += ", reads its target's hidden states (EAGLE)"
    if plan.block:
        shape += f", drafts {plan.block} tokens with one call from its target's hidden states"
    if plan.feed_forward:
        shape += f", {plan.feed_forward} units in a feed-forward block"
    if plan.vocabulary:
        shape += f", {plan.vocabulary} of its tokens"
    if plan.target_tables:
        shape += ", embedding and head taken from its target"
    return shape


def _start(plan: Plan) -> str | None:
    return None if plan.start is None else Path(plan.start).resolve().name


def _origin(plan: Plan) -> str:
    return "the target" if plan.start is None else f"the draft {_start(plan)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _lasted(minutes: float) -> str:
    return _counted(round(minutes), "minute") if minutes >= 1 else "less than a minute"


def _facts(plan: Plan, result: Distillation) -> str:
    """Its shape, its data and its training: a list, as these are too long for a table's cells."""
    share = result.draft_parameters / result.target_parameters
    source = "the draft's own outputs" if plan.on_policy else "the target's outputs"
    written = f", {result.output_tokens} tokens" if result.output_tokens else ""
    facts = [
        f"shape: {_shape(plan)}; {result.draft_parameters / 1e6:.1f}M parameters "
        f"({share:.1%} of the target's)",
        f"trained on: {source} after {result.prompts} prompts{written}{_read(result)}",
        f"training: {_counted(result.steps, 'step')}, {_lasted(result.minutes)}, "
        f"{LOSS_NAMES[plan.loss]}, seed {plan.seed}",
    ]
    wrap = partial(textwrap.fill, width=WIDTH, initial_indent="- ", subsequent_indent="  ")
    return "\n".join(map(wrap, facts))


def _card(target: str, plan: Plan, result: Distillation) -> str:
    return f"""# A draft for {target}

It proposes tokens that the target verifies, so the target's own text is generated faster. Alone it
is a poor model. Made by `edgespec distill`, edgespec {VERSION}. Its training started from the
weights of {_origin(plan)}; they are under the target's licence. Pair it with its target:

    edgespec export TARGET THIS_FOLDER -o PAIR

{_facts(plan, result)}

| on {result.held_out} held-out prompts{
        ", first token of a round" if plan.uses_target_states else ""
    } \
| before | after |
|---|---|---|
| greedy: same most probable token | {result.before.greedy:.3f} | {result.after.greedy:.3f} |
| α at temperature 1: E Σ min(p, q) | {result.before.sampled:.3f} | {result.after.sampled:.3f} |

The figures hold for prompts similar to the training prompts; on others expect less. Whatever the
draft proposes, the text stays the target's own.{_known_note(result)}
"""


def _read(result: Distillation) -> str:
    tokens = result.read_tokens
    return f"; what it says in {tokens} tokens of answers that it read" if tokens else ""


def _known_note(result: Distillation) -> str:
    if result.known is None:
        return ""
    return f"""

On texts that it was trained on it has {result.known:.3f} (greedy). More prompts can raise the
held-out figure up to this one; only more steps or a larger draft can raise this one."""

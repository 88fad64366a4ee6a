"""Records what the package "speculators" computes of the random drafts of the tests.

    python -m venv .peers/speculators && .peers/speculators/bin/pip install speculators==0.9.0
    .peers/speculators/bin/pip install tokenizers pytest
    PYTHONPATH=tests:.:export:runtimes .peers/speculators/bin/python scripts/record_speculators.py

It writes tests/drafters/speculators-0.9.0.json, which tests/drafters/test_speculators.py reads: the
logits of a draft's proposals after a text, with the hidden states of a random target.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from speculators.models.dflash.config import DFlashSpeculatorConfig
from speculators.models.dflash.core import DFlashDraftModel
from speculators.models.dflash2.config import DFlash2SpeculatorConfig
from speculators.models.dflash2.core import DFlash2DraftModel
from speculators.models.dspark.config import DSparkSpeculatorConfig
from speculators.models.dspark.core import DSparkDraftModel
from speculators.models.eagle3.config import Eagle3SpeculatorConfig
from speculators.models.eagle3.core import Eagle3DraftModel
from transformers import AutoModelForCausalLM

from eagle3_checkpoints import write_deep_target
from speculators_checkpoints import (
    BLOCK_CONFIGS,
    EAGLE3_CONFIGS,
    block_tensors,
    eagle3_tensors,
    read_layers,
)

BLOCKS: dict[str, tuple[Any, Any]] = {
    "dflash": (DFlashSpeculatorConfig, DFlashDraftModel),
    "dflash2": (DFlash2SpeculatorConfig, DFlash2DraftModel),
    "dspark": (DSparkSpeculatorConfig, DSparkDraftModel),
}

DRAFTED = (9, 250, 14, 61)
TEXT = (40, 41, 42, 50, 60, 61, 7, 200, 7, 31)
RECORDED = Path("tests/drafters/speculators-0.9.0.json")
DIGITS = 6


@torch.no_grad()
def features(target: Any, tokens: list[int], layers: list[int]) -> torch.Tensor:
    """[1, tokens, layers · width]: outputs of the target's layers, side by side."""
    states = target(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    return torch.cat([states[layer] for layer in layers], dim=-1)


def loaded(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> torch.nn.Module:
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected, unexpected
    assert all(name.startswith("verifier_") for name in missing), missing
    return model.eval()


@torch.no_grad()
def eagle3(target: Any, config: dict[str, Any]) -> list[list[float | None]]:
    """Logits after the text and after each drafted token."""
    read = Eagle3SpeculatorConfig.model_validate(config)
    read.transformer_layer_config._attn_implementation = "eager"
    model = loaded(Eagle3DraftModel(read), eagle3_tensors(config))
    layers = read_layers(config, "eagle_aux_hidden_state_layer_ids")
    tokens = [*TEXT, *DRAFTED[:3]]
    found: list[torch.Tensor] = []
    model.lm_head.register_forward_hook(lambda module, inputs, logits: found.append(logits))
    model(
        hidden_states=features(target, tokens, layers)[:, :-1],
        input_ids=torch.tensor([tokens[1:]]),
        document_ids=torch.zeros(1, len(tokens) - 1, dtype=torch.long),
        ttt_steps=4,
    )
    return rounded([step[0, len(TEXT) - 2] for step in found])


@torch.no_grad()
def block(target: Any, config: dict[str, Any]) -> dict[str, list[Any]]:
    """Logits of the block after the text, each after the drafted token before it, and confidences.

    The package computes blocks at anchors of a text: here at one, the last token of `TEXT`.
    """
    kind = config["speculators_model_type"]
    read, model_class = BLOCKS[kind]
    settings = read.model_validate(config)
    settings.transformer_layer_config._attn_implementation = "eager"
    embedding = target.get_input_embeddings().weight
    tensors = {**block_tensors(config), "embed_tokens.weight": embedding}
    if config["draft_vocab_size"] == len(embedding):
        tensors["lm_head.weight"] = target.get_output_embeddings().weight
    model = loaded(model_class(settings), tensors)
    layers = read_layers(config, "aux_hidden_state_layer_ids")
    rows = config["block_size"]
    tokens = [*TEXT, *DRAFTED, *[0] * 2 * rows]
    anchor = torch.zeros(1, len(tokens))
    anchor[0, len(TEXT) - 1] = 1
    hidden, logits, *_ = model._backbone_forward(
        features(target, tokens, layers),
        torch.tensor([tokens]),
        anchor,
        torch.zeros(1, len(tokens), target.config.hidden_size),
        torch.zeros(1, len(tokens), dtype=torch.long),
        max_anchors=1,
    )
    first = 0 if settings.sample_from_anchor else 1
    hidden, logits = hidden[:, first:], logits[:, first:]
    before = torch.tensor([[TEXT[-1], *DRAFTED][: rows - first]])
    confidences = None
    if kind == "dspark":
        read_tokens = model.markov_head.prev_embeddings(before)
        logits = logits + model.markov_head.block_bias(
            prev_token_ids=before, hidden_states=hidden, prev_emb=read_tokens
        )
        if settings.confidence_head_with_markov:
            hidden = torch.cat([hidden, read_tokens], dim=-1)
        confidences = model.confidence_head(hidden).sigmoid()[0].tolist()
    if kind == "dflash2":
        ids, scores = model.candidate_selector.select(logits, hidden, before)
        logits = torch.full_like(logits, -1e30).scatter(-1, ids, scores)
    return {"logits": rounded(list(logits[0])), "confidences": confidences}


def rounded(rows: list[torch.Tensor]) -> list[list[float | None]]:
    """Numbers of rows; None for those of tokens that are never proposed."""
    return [
        [round(number, DIGITS) if number > -1e29 else None for number in row.tolist()]
        for row in rows
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_deep_target(Path(folder) / "target")
        target = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    recorded = {
        "text": TEXT,
        "drafted": DRAFTED,
        "block": {name: block(target, config) for name, config in BLOCK_CONFIGS.items()},
        "eagle3": {name: eagle3(target, config) for name, config in EAGLE3_CONFIGS.items()},
    }
    RECORDED.write_text(json.dumps(recorded, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

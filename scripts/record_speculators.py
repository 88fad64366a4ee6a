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
from speculators.models.eagle3.config import Eagle3SpeculatorConfig
from speculators.models.eagle3.core import Eagle3DraftModel
from transformers import AutoModelForCausalLM

from eagle3_checkpoints import write_deep_target
from speculators_checkpoints import EAGLE3_CONFIGS, eagle3_tensors, read_layers

DRAFTED = (9, 250, 14)
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
def eagle3(target: Any, config: dict[str, Any]) -> list[list[float]]:
    """Logits after the text and after each drafted token."""
    read = Eagle3SpeculatorConfig.model_validate(config)
    read.transformer_layer_config._attn_implementation = "eager"
    model = loaded(Eagle3DraftModel(read), eagle3_tensors(config))
    layers = read_layers(config, "eagle_aux_hidden_state_layer_ids")
    tokens = [*TEXT, *DRAFTED]
    found: list[torch.Tensor] = []
    model.lm_head.register_forward_hook(lambda module, inputs, logits: found.append(logits))
    model(
        hidden_states=features(target, tokens, layers)[:, :-1],
        input_ids=torch.tensor([tokens[1:]]),
        document_ids=torch.zeros(1, len(tokens) - 1, dtype=torch.long),
        ttt_steps=len(DRAFTED) + 1,
    )
    return rounded([step[0, len(TEXT) - 2] for step in found])


def rounded(rows: list[torch.Tensor]) -> list[list[float]]:
    return [[round(number, DIGITS) for number in row.tolist()] for row in rows]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_deep_target(Path(folder) / "target")
        target = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    recorded = {
        "text": TEXT,
        "drafted": DRAFTED,
        "eagle3": {name: eagle3(target, config) for name, config in EAGLE3_CONFIGS.items()},
    }
    RECORDED.write_text(json.dumps(recorded, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

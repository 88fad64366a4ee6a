"""Which module of a model each tensor of an adapter changes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.adapter.lora_config import WAY_OUT
from edgespec_export.checkpoint.text_part import plain_name

__all__ = ["HEAD", "AdapterNames", "adapter_names"]

HEAD = "lm_head"
PREFIX = "base_model.model."
# What some checkpoints have before the names of modules, and others lack.
BEGINNINGS = ("model.", "transformer.")
# The ends of names: of LoRA's parts, and of tensors that were trained as a whole.
_NAME = re.compile(
    r"(?P<module>.+?)\.(?:(?:base_layer|modules_to_save)\.)?(?P<part>"
    r"lora_[AB]\.weight|lora_B\.bias|lora_embedding_[AB]|lora_magnitude_vector|weight|bias)"
)
# Parts of models that read more than text; the exported text model has none of them.
_OTHER_PART = re.compile(r"(.*\.)?(vision|visual|image|audio|multi_modal|embed_vision)\w*\..*")


@dataclass(frozen=True)
class AdapterNames:
    """The tensors of an adapter.

    Attributes:
        modules: of each module of the model, the adapter's names by part ("lora_A.weight", …,
            "weight" for a whole one).
        missing: modules that the model does not have.
        left_out: how many tensors are of parts that read images or sound.
    """

    modules: dict[str, dict[str, str]]
    missing: list[str]
    left_out: int


def adapter_names(names: Collection[str], model: Collection[str]) -> AdapterNames:
    """Finds the modules of an adapter's tensors.

    Args:
        names: of the adapter's tensors.
        model: names of the model's tensors.

    Raises:
        EdgespecError: a tensor is not one of LoRA's.
    """
    modules: defaultdict[str, dict[str, str]] = defaultdict(dict)
    missing, left_out = [], 0
    for name in names:
        found = _NAME.fullmatch(name.removeprefix(PREFIX).replace("vector.weight", "vector"))
        if found is None:
            raise EdgespecError(f"its tensor {shortened(name)} is not one of LoRA's; {WAY_OUT}")
        module = _module(found["module"], model)
        if module is not None:
            modules[module][found["part"]] = name
        elif _OTHER_PART.match(found["module"]):
            left_out += 1
        else:
            missing.append(found["module"])
    return AdapterNames(dict(modules), missing, left_out)


def _module(module: str, model: Collection[str]) -> str | None:
    for spelling in _spellings(module):
        if f"{spelling}.weight" in model:
            return spelling
    return module if module == HEAD else None  # of a model whose head is its embedding


def _spellings(module: str) -> Iterator[str]:
    """A module's name in checkpoints, which may lack a prefix, have one, or be of a text part."""
    yield module
    for beginning in BEGINNINGS:
        yield module.removeprefix(beginning)
        yield beginning + module
    plain = plain_name(f"{module}.weight")
    if plain is not None:
        yield plain.removesuffix(".weight")

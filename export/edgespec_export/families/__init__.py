"""Model families: each says what its graphs compute and refuses configs it does not understand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from edgespec.errors import EdgespecError, shortened
from edgespec_export.components.attention import Attention, Heads
from edgespec_export.components.blocks import NumberFormat
from edgespec_export.families.eagle import Eagle
from edgespec_export.families.llama import KINDS, Llama
from edgespec_export.families.t5 import T5
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.quantization.hadamard import Residual

__all__ = ["Family", "family_of", "transformers_class"]

# The transformers class that loads a family's original, by the family's name in the manifest.
_TRANSFORMERS_CLASSES = {"llama": "AutoModelForCausalLM", "t5": "AutoModelForSeq2SeqLM"}


class Family(Protocol):
    """The shape of one model. Attributes are those of `edgespec.artifact.manifest.Exported`.

    Attributes:
        graphs: names of its graphs.
        label: what the model is called, for people.
        redundant: names of tensors that checkpoints carry and no model needs.
        table, head: names of the embedding and, where the two are not tied, of the head.
        copies: names under which checkpoints repeat the embedding.
    """

    @property
    def label(self) -> str: ...
    @property
    def redundant(self) -> re.Pattern[str]: ...
    @property
    def table(self) -> str: ...
    @property
    def head(self) -> str: ...
    @property
    def copies(self) -> Sequence[str]: ...
    @property
    def tied_head(self) -> bool: ...
    @property
    def family(self) -> str: ...
    @property
    def graphs(self) -> tuple[str, ...]: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def heads(self) -> Heads: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_size(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def positions(self) -> int | None: ...
    @property
    def start_token(self) -> int | None: ...
    @property
    def features(self) -> int: ...

    def emit(self, g: Graph, numbers: NumberFormat, attention: Attention) -> None:
        """Emits the graph named `g.name`."""

    def residual(self) -> Residual:
        """What touches the residual stream."""
        ...

    def with_own_head(self) -> Family:
        """The same model, its head not tied to the embedding."""
        ...

    def shapes(self) -> Iterable[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the tensors that show whether a config is their own."""
        ...


def transformers_class(family: str) -> str:
    """Name of the transformers class that loads the original of an exported family.

    Raises:
        EdgespecError: there is none for this family.
    """
    if family not in _TRANSFORMERS_CLASSES:
        raise EdgespecError(
            f"family {shortened(family)} has no class in transformers to verify it with "
            f"(known: {', '.join(_TRANSFORMERS_CLASSES)}); export without --verify"
        )
    return _TRANSFORMERS_CLASSES[family]


def family_of(config: dict[str, Any], label: str) -> Family:
    """The family that a config's `model_type` names.

    Raises:
        EdgespecError: no such family here, a key it does not understand, or a value that is none.
    """
    kind = config.get("model_type")
    try:
        if kind in ("t5", "mt5"):
            return T5.from_config(config, label)
        if kind in KINDS:
            return Llama.from_config(config, label)
        if kind == "eagle":
            return Eagle.from_config(config, label)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise EdgespecError(
            f"{label}: config.json has a value of the wrong kind ({error}); download it again"
        ) from None
    raise EdgespecError(
        f"{label}: model_type is {shortened(kind)}; edgespec exports t5, mt5, llama, "
        "mistral, qwen2, qwen3 and EAGLE heads that it has distilled (eagle)"
    )

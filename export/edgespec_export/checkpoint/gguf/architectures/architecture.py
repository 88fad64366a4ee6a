"""What llama.cpp's converter makes of a Hugging Face checkpoint of one architecture."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.weights import Weights

__all__ = ["EXPERT", "Architecture", "MakesConfig"]

EXPERT = "<expert>"  # in a name: a number for each row of the tensor

MakesConfig = Callable[[GgufHeader], JsonObject]

_IN_LAYER = re.compile(r"(?P<stack>(?:\w+\.)?blk)\.(?P<layer>\d+)\.(?P<part>.+)\.(?P<kind>\w+)")


@dataclass(frozen=True)
class Architecture:
    """One value of `general.architecture`.

    Attributes:
        name: the value, which is also the prefix of the file's keys.
        model_types: what a Hugging Face config of its models may say.
        config: makes this config.
        stacks: Hugging Face's name of a layer, with its number in braces, by the file's name of
            the stack ("blk").
        parts: Hugging Face's names of a layer's tensors by the file's, for each stack.
        outside: the same of tensors outside layers, with their suffix.
        keys: that `config` reads besides those of every architecture.
        of_config: tensors that `config` reads.
        reorders_heads: rows of queries and keys are in the order of neighbouring pairs.
        norms_with_one: 1 is added to the weights of norms.
        transposed, squeezed: Hugging Face's last names of the tensors that the checkpoint has
            transposed, and with a second dimension of 1.
        without_suffix: Hugging Face's names of parts that are no ".weight".
        variant: the architecture of a file, where those of one name differ.
        restored: undoes what else the converter changes, given the file's tensors and `config`.
    """

    name: str
    model_types: tuple[str, ...]
    config: MakesConfig
    stacks: Mapping[str, str]
    parts: Mapping[str, Mapping[str, str]]
    outside: Mapping[str, str]
    keys: frozenset[str] = frozenset()
    of_config: frozenset[str] = field(default=frozenset({"rope_freqs.weight"}))
    reorders_heads: bool = False
    norms_with_one: bool = False
    transposed: tuple[str, ...] = ()
    squeezed: tuple[str, ...] = ()
    without_suffix: frozenset[str] = frozenset()
    variant: Callable[[GgufHeader], Architecture] | None = None
    restored: Callable[[Weights, JsonObject], Weights] | None = None

    def hugging_face_name(self, header: GgufHeader, name: str) -> str:
        """The checkpoint's name of a tensor.

        Raises:
            EdgespecError: no model of this architecture has such a tensor.
        """
        if name in self.outside:
            return self.outside[name]
        match = _IN_LAYER.fullmatch(name)
        part = None
        if match is not None:
            part = self.parts.get(match["stack"], {}).get(match["part"])
        if match is None or part is None:
            raise EdgespecError(f"{header.path}: tensor {shortened(name)} is not known")
        layer = self.stacks[match["stack"]].format(match["layer"])
        return f"{layer}.{part}" + ("" if part in self.without_suffix else f".{match['kind']}")

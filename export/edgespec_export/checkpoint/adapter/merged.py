"""The weights of a model with an adapter merged into them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.adapter.adapter_folder import (
    adapter_settings,
    adapter_weights,
    base_name,
)
from edgespec_export.checkpoint.adapter.adapter_names import HEAD, adapter_names
from edgespec_export.checkpoint.adapter.lora import Change, LowRank, Replaced, Shifted
from edgespec_export.checkpoint.adapter.lora_config import WAY_OUT, LoraConfig, lora_config
from edgespec_export.checkpoint.weights import Tensor, Weights, read_rows

__all__ = ["Merged", "merged"]

PAIRS = (("lora_A.weight", "lora_B.weight"), ("lora_embedding_A", "lora_embedding_B"))
_TABLE = re.compile(r"(.*\.)?(embed_tokens|wte|shared)")

_log = logging.getLogger("edgespec")


def merged(folder: Path, weights: Weights, label: str) -> Weights:
    """The weights of a model with the LoRA in a folder.

    Args:
        label: of the model.

    Raises:
        EdgespecError: the adapter is of another kind, of another model, or changes it in a way that
            is not read.
    """
    settings = adapter_settings(folder)
    config = lora_config(settings, str(folder))
    base = base_name(settings)
    model = f"{label} (its model: {shortened(base)})" if base else label
    adapter = adapter_weights(folder)
    try:
        names = adapter_names(adapter.names(), set(weights.names()))
        if names.missing or not names.modules:
            wanted = names.missing[0] if names.missing else "no module of it"
            raise EdgespecError(f"is no adapter of {model}: it changes {shortened(wanted)}")
        maker = _Maker(adapter, weights, config, model)
        changes = maker.changes(names.modules)
    except EdgespecError as error:
        raise EdgespecError(f"{folder}: {error}") from None
    _log.info("%s: %d tensors changed by the adapter %s", label, len(changes), folder)
    if names.left_out:
        _log.info("%s: %d tensors of other parts of the model left out", folder, names.left_out)
    return Merged(weights, adapter, changes)


@dataclass(frozen=True)
class _Pair:
    """The two matrices of a module's change.

    Attributes:
        a, b: their names.
        shape: of their product, [out, in].
        of_table: the module is an embedding, whose inputs are its rows.
    """

    a: str
    b: str
    shape: tuple[int, int]
    scale: float
    of_table: bool


@dataclass(frozen=True)
class _Maker:
    """Makes the changes of a model's tensors. Its errors lack the name of the adapter."""

    adapter: Weights
    weights: Weights
    config: LoraConfig
    model: str

    def changes(self, modules: Mapping[str, Mapping[str, str]]) -> dict[str, Change]:
        """The changes, by the names of the model's tensors."""
        self._check_tied_head(modules)
        pairs = {module: self._pair(module, parts) for module, parts in modules.items()}
        transposes = self.config.fan_in_fan_out or any(
            self._only_transposed_fits(module, pair) for module, pair in pairs.items() if pair
        )
        made: dict[str, Change] = {}
        for module, parts in modules.items():
            product, bias = None, None
            if (pair := pairs[module]) is not None:
                product = self._product(module, pair, parts, transposes)
                bias = self._shift(module, pair, parts)
            for part, change in (("weight", product), ("bias", bias)):
                name = f"{module}.{part}"
                if part in parts:
                    self._check(name, self.adapter.shape(parts[part]))
                    made[name] = Replaced(self.adapter, parts[part], change)
                elif change is not None:
                    made[name] = change
        return made

    def _pair(self, module: str, parts: Mapping[str, str]) -> _Pair | None:
        """A and B of a module that has them."""
        for a, b in PAIRS:
            if a in parts and b in parts:
                rank, out = self.adapter.shape(parts[a])[0], self.adapter.shape(parts[b])[0]
                shape = (out, self.adapter.shape(parts[a])[-1])
                scale = self.config.scale(module, rank)
                return _Pair(parts[a], parts[b], shape, scale, a != PAIRS[0][0])
            if a in parts or b in parts:
                raise EdgespecError(f"has only one of the two matrices of {module}")
        return None

    def _only_transposed_fits(self, module: str, pair: _Pair) -> bool:
        name = f"{module}.weight"
        stored = self.weights.shape(name) if name in self.weights.names() else ()
        return not pair.of_table and stored == pair.shape[::-1] != pair.shape

    def _product(
        self, module: str, pair: _Pair, parts: Mapping[str, str], transposes: bool
    ) -> Change:
        lengths = parts.get("lora_magnitude_vector")
        if pair.of_table and lengths:
            raise EdgespecError(f"has DoRA of an embedding ({module}); {WAY_OUT}")
        is_square = pair.shape == pair.shape[::-1]
        is_transposed = (
            pair.of_table or self._only_transposed_fits(module, pair) or (is_square and transposes)
        )
        shape = pair.shape[::-1] if is_transposed else pair.shape
        self._check(f"{module}.weight", shape)
        return LowRank(self.adapter, pair.a, pair.b, pair.scale, is_transposed, lengths)

    def _shift(self, module: str, pair: _Pair, parts: Mapping[str, str]) -> Change | None:
        """Of a bias, by that of B."""
        name = parts.get("lora_B.bias")
        if name is None:
            return None
        self._check(f"{module}.bias", self.adapter.shape(name))
        return Shifted(self.adapter, name, pair.scale)

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        """Refuses a change that has another shape than what it changes."""
        if name not in self.weights.names():
            if name == f"{HEAD}.weight":
                return
            raise EdgespecError(f"is no adapter of {self.model}: it changes {shortened(name)}")
        stored = self.weights.shape(name)
        if stored != shape:
            raise EdgespecError(
                f"is no adapter of {self.model}: it changes {name} as {list(shape)}, and there it "
                f"is {list(stored)}; if tokens were added, {WAY_OUT}"
            )

    def _check_tied_head(self, modules: Mapping[str, Mapping[str, str]]) -> None:
        """Refuses a change of an embedding that is the head, too: programs differ in what it is."""
        if f"{HEAD}.weight" in self.weights.names():
            return
        tables = [module for module in modules if _TABLE.fullmatch(module) or module == HEAD]
        whole = all(set(modules[module]) == {"weight"} for module in tables)
        if tables and not (whole and HEAD in tables and len(tables) > 1):
            raise EdgespecError(
                f"changes {tables[0]}, and the model's embedding is its head, too; {WAY_OUT}"
            )


class Merged:
    """The `Weights` of a model with changes by an adapter, which are computed in float32."""

    def __init__(self, weights: Weights, adapter: Weights, changes: Mapping[str, Change]) -> None:
        self._weights, self._adapter, self._changes = weights, adapter, changes
        self._own = set(weights.names())

    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self._own.union(self._changes))

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape."""
        change = self._changes.get(name)
        if name not in self._own and isinstance(change, Replaced):
            return self._adapter.shape(change.name)
        return self._weights.shape(name)

    def read(self, name: str) -> Tensor:
        """The tensor; float32 if the adapter changes it."""
        if name not in self._changes:
            return self._weights.read(name)
        return self._changed(name, 0, self.shape(name)[0])

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows of `read`."""
        change = self._changes.get(name)
        if change is None:
            return read_rows(self._weights, name, start, stop)
        if isinstance(change, LowRank) and change.transposed and change.lengths:
            return self.read(name)[start:stop]
        return self._changed(name, start, min(stop, self.shape(name)[0]))

    def _changed(self, name: str, start: int, stop: int) -> Tensor:
        rows = np.empty((0,), np.float32)  # of a tensor that is the adapter's alone
        if name in self._own:
            rows = read_rows(self._weights, name, start, stop).astype(np.float32)
        return np.ascontiguousarray(self._changes[name].applied(rows, start, stop))

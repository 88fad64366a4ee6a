"""Rotary positions: the frequencies and amplitudes that a config asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened
from edgespec_export.components.positions import Rotary
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.yarn import OF_YARN, yarn_amplitude, yarn_frequencies

__all__ = [
    "LENGTH",
    "check_rope",
    "longest_text",
    "partial_rotary",
    "rope_kind",
    "rope_settings",
    "rotated_numbers",
    "trained_positions",
    "whole_rotary",
    "without_pictures",
]

LENGTH = "max_position_embeddings"
# Settings that only rows and columns of pictures change ("mrope").
OF_PICTURES = {"mrope_section", "mrope_interleaved"}
TRAINED = "original_max_position_embeddings"


def whole_rotary(config: Config, head_size: int, positions: int, label: str) -> Rotary:
    """Rotary positions of whole heads. "proportional" ones turn some of a head's pairs only.

    Args:
        positions: how many the tables hold.

    Raises:
        EdgespecError: a config that rotates a part of each head.
        ArithmeticError, KeyError, TypeError, ValueError, EdgespecError: as `partial_rotary`.
    """
    if rope_kind(config) == "proportional":
        return _proportional(config, head_size, positions, label)
    rotated = rotated_numbers(config, head_size)
    if rotated != head_size:
        raise EdgespecError(
            f"{label}: config.json says partial_rotary_factor = {rotated / head_size:g}; edgespec "
            "exports models of this type only with 1.0"
        )
    return partial_rotary(config, head_size, head_size, positions, label)


@np.errstate(divide="raise", invalid="raise", over="raise")
def partial_rotary(
    config: Config, head_size: int, rotated: int, positions: int, label: str
) -> Rotary:
    """Rotary positions of the first numbers of each head; the rest has frequency 0, amplitude 1.

    Su et al. (2021), arXiv 2104.09864; "linear", "llama3" and "yarn" lower the frequencies for
    longer texts, "dynamic" for texts beyond the config's positions only, which no cache here holds.

    Args:
        rotated: how many numbers of a head are rotated (`rotated_numbers`).
        positions: how many the tables hold.

    Raises:
        ArithmeticError: a base or a factor that gives no frequencies.
        KeyError, TypeError: a setting is missing or of the wrong kind.
        ValueError: an odd size, which has no pairs.
        EdgespecError: a scaling whose frequencies depend on the text's length, or an unknown one.
    """
    if head_size % 2 or rotated % 2:
        raise ValueError(f"head_dim is {head_size}")
    scaling = rope_settings(config)
    kind = _kind(scaling)
    top = config.number("rope_theta", 10000.0)
    base = scaling.pop("rope_theta", None) or top
    for read in ("partial_rotary_factor", "rope_type", "type"):
        scaling.pop(read, None)
    exponents = np.arange(0, rotated, 2, dtype=np.float32) / np.float32(rotated)
    frequencies: npt.NDArray[np.float32] = (1.0 / np.float32(base) ** exponents).astype(np.float32)
    amplitude = 1.0
    if kind == "linear":
        frequencies = np.divide(frequencies, scaling.pop("factor"), dtype=np.float32)
    elif kind == "llama3":
        frequencies = _llama3(
            frequencies,
            factor=scaling.pop("factor"),
            low=scaling.pop("low_freq_factor"),
            high=scaling.pop("high_freq_factor"),
            trained=_trained(config, scaling),
        )
    elif kind == "yarn":
        of_yarn = {key: scaling.pop(key) for key in OF_YARN.intersection(scaling)}
        trained = _trained(config, scaling)
        factor = _yarn_factor(config, scaling.pop("factor"), trained)
        frequencies = yarn_frequencies(
            frequencies, of_yarn, base=base, factor=factor, trained=trained
        )
        amplitude = yarn_amplitude(of_yarn, factor)
    elif kind == "dynamic":
        scaling.pop("factor")
    elif kind != "default":
        raise EdgespecError(
            f"{label}: config.json asks for rope scaling {shortened(kind)}; edgespec exports "
            "default, linear, llama3, yarn and dynamic"
        )
    _refuse_unknown(scaling, label)
    return whole_heads(frequencies, amplitude, head_size, positions)


@np.errstate(divide="raise", invalid="raise", over="raise")
def _proportional(config: Config, head_size: int, positions: int, label: str) -> Rotary:
    """The frequencies of whole heads, of which the first ones turn.

    Partial positions have other pairs, neighbours in the turned part, and frequencies of that part.
    """
    scaling = rope_settings(config)
    turned = int(head_size * _turned_share(config) // 2)
    base = scaling.pop("rope_theta", None) or config.number("rope_theta", 10000.0)
    factor = scaling.pop("factor", 1.0)
    for read in ("partial_rotary_factor", "rope_type", "type"):
        scaling.pop(read, None)
    _refuse_unknown(scaling, label)
    exponents = np.arange(0, 2 * turned, 2, dtype=np.float32) / np.float32(head_size)
    frequencies = 1.0 / np.float32(base) ** exponents
    return whole_heads(np.divide(frequencies, factor, dtype=np.float32), 1.0, head_size, positions)


def whole_heads(
    frequencies: npt.NDArray[np.float32], amplitude: float, head_size: int, positions: int
) -> Rotary:
    """Rotary positions of heads of which the first pairs have these frequencies."""
    amplitudes = None
    if amplitude != 1:
        amplitudes = np.ones(head_size // 2, np.float32)
        amplitudes[: len(frequencies)] = amplitude
    rest = np.zeros(head_size // 2 - len(frequencies), np.float32)
    return Rotary(np.concatenate([frequencies, rest]), positions, amplitudes)


def longest_text(config: Config) -> int:
    """How many positions a model has: the config's, or those that YaRN stretches them to."""
    stated, scaling = config.count(LENGTH), rope_settings(config)
    if _kind(scaling) != "yarn":
        return stated
    trained = _trained(config, scaling)
    return max(stated, int(trained * _yarn_factor(config, scaling["factor"], trained)))


def rotated_numbers(config: Config, head_size: int) -> int:
    """How many numbers of a head are rotated: the first ones.

    Raises:
        ValueError: a share of a head that is none.
    """
    return int(head_size * _turned_share(config))


def _turned_share(config: Config) -> float:
    fraction = config.get("partial_rotary_factor", 1.0)
    fraction = rope_settings(config).get("partial_rotary_factor") or fraction
    if type(fraction) not in (int, float) or not 0 < fraction <= 1:
        raise ValueError(f"partial_rotary_factor is {shortened(fraction)}")
    return float(fraction)


def trained_positions(config: Config) -> int:
    """The positions of training, from which the rope settings stretch a model to longer texts."""
    return _trained(config, rope_settings(config))


def rope_settings(config: Config) -> dict[str, Any]:
    """The rope settings, which have two names; the older one counts unless it is empty.

    Transformers does the same: it then ignores the other one, even its `rope_theta`.
    """
    older, newer = config.get("rope_scaling"), config.get("rope_parameters")
    return dict(older or newer or {})


def check_rope(values: Mapping[str, Any]) -> None:
    """Raises TypeError if rope settings are no object, or a factor in them is no number."""
    for name in ("rope_scaling", "rope_parameters"):
        settings = values.get(name)
        if settings and not isinstance(settings, dict):
            raise TypeError(f"{name} is {shortened(settings)}")
        for key, value in (settings or {}).items():
            if "factor" in key and isinstance(value, str | bool):
                raise TypeError(f"{key} of rope scaling is {value!r}")


def without_pictures(values: dict[str, Any]) -> dict[str, Any]:
    """A config without rope settings that change nothing for texts."""
    settings = {key: values[key] for key in ("rope_parameters", "rope_scaling") if values.get(key)}
    return {
        **values,
        **{
            key: {name: value for name, value in found.items() if name not in OF_PICTURES}
            for key, found in settings.items()
        },
    }


def rope_kind(config: Config) -> Any:
    """The name of the scaling that a config asks for."""
    return _kind(rope_settings(config))


def _refuse_unknown(left: dict[str, Any], label: str) -> None:
    """Settings that nothing has read."""
    if left:
        raise EdgespecError(f"{label}: config.json has unknown rope settings: {sorted(left)}")


def _kind(scaling: dict[str, Any]) -> Any:
    return scaling.get("rope_type") or scaling.get("type") or "default"


def _trained(config: Config, scaling: dict[str, Any]) -> int:
    """The positions of training, which a config states beside its rope settings or among them."""
    among = scaling.pop(TRAINED, None)
    return config.count(TRAINED, among or config.count(LENGTH))


def _yarn_factor(config: Config, stated: Any, trained: int) -> float:
    factor = config.count(LENGTH) / trained if stated is None else stated
    if type(factor) not in (int, float) or not 0 < factor < math.inf:
        raise ValueError(f"the factor of rope scaling is {shortened(factor)}")
    return float(factor)


def _llama3(
    frequencies: npt.NDArray[np.float32], *, factor: float, low: float, high: float, trained: int
) -> npt.NDArray[np.float32]:
    """Divides low frequencies by `factor`, keeps high ones and blends those between."""
    wavelength = 2 * math.pi / frequencies
    blend = np.clip((trained / wavelength - low) / (high - low), 0, 1)
    blended: npt.NDArray[np.generic] = (1 - blend) * frequencies / factor + blend * frequencies
    return blended.astype(np.float32)

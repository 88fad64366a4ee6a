"""Checks of a target on another provider than the processor's.

It may not run there at all. It may be computed in fewer bits than the graph asks for: it then still
verifies exactly with respect to itself, but it is another model than on the processor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from edgespec.artifact.manifest import Manifest, Variant
from edgespec.artifact.row_invariance import Distance
from edgespec.core.model import Model
from edgespec.device.device import CPU, Device, variant_title
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening.runtime import hear_sample, open_model
from edgespec.pair.opening.sample_prompts import sample_texts
from edgespec.pair.opening.variant_quality import distance, mean_kl, samples_for
from edgespec.pair.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from edgespec.pair.opening.runtime import OrtModel

__all__ = ["left_out_if_it_cannot", "log_distance", "refuse_if_far"]

logger = logging.getLogger("edgespec")


class _Limit(NamedTuple):
    """The most that rounding explains between a provider and the processor.

    Attributes:
        difference: of a logit, relative to the largest.
        kl: mean of the distributions, in nats.
    """

    difference: float
    kl: float


# Of weights in float32, on devices that multiply in 19 bits (TF32) too; of fewer bits, which every
# device rounds at other places; and of activations in 8 bits, where a number near the border of two
# steps falls to different sides: a step is 0.4 % of a range, and there are some in every layer.
WIDE, NARROW, STEPPED = _Limit(0.01, 0.001), _Limit(0.1, 0.02), _Limit(0.3, 0.05)
# Steps that fall to different sides make two roundings of one model. Each is as far from float32 as
# the format is: together twice as far (SmolLM2's first layers in w8a8: 0.17 nats on Qualcomm's NPU
# from the processor, and 0.15 from float32).
ROUNDINGS = 2
COMPARED = 2  # sample texts
COMPARED_CALLS = 10  # of a graph with fixed shapes, for each text: as many rows of it


def refuse_if_far(folder: Path, manifest: Manifest, variant: str, device: Device) -> None:
    """Compares the logits of a few calls on a provider with those of the same graph on the
    processor, and logs how far they are.

    A quantized graph is compared with itself, not with the model that it was made of. A provider
    can keep rows apart and compute something else: attention of onnxruntime-webgpu 1.27 does.

    Raises:
        EdgespecError: they are further apart than rounding explains, or not finite numbers.
    """
    if device.provider == CPU:
        return
    target, tokenizer = manifest.target, load_tokenizer(folder)
    there, here = _both(folder, manifest, variant, device)
    texts = [tokenizer.encode(text).ids for text in sample_texts(target)[:COMPARED]]
    samples = samples_for(here, texts, target.is_encoder_decoder)
    static = target.variants[variant].static
    if static is not None:
        samples = [(prompt, text[: COMPARED_CALLS * static.widest]) for prompt, text in samples]
    expected, found = (
        np.concatenate([_logits(model, *sample) for sample in samples]) for model in (here, there)
    )
    what = f"target {variant_title(variant, device.provider)}"
    if not np.isfinite(found).all():
        raise EdgespecError(
            f"{what} computes numbers that are not finite, and the processor does not; take "
            "another format (fp32) or another provider (cpu)"
        )
    difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    kl = mean_kl(expected, found)
    limit = _limit_of(target.variants[variant])
    if difference > limit.difference or kl > limit.kl:
        other = "export the pair with --for gpu, or " if manifest.host is None else ""
        raise EdgespecError(
            f"{what} is another model than on the processor: logits differ by {difference:.1%} of "
            f"the largest, KL {kl:.2g} nats, and rounding explains {limit.difference:.0%} and "
            f"{limit.kl:g}; {other}take another provider (cpu)"
        )
    same = float((expected.argmax(axis=1) == found.argmax(axis=1)).mean())
    logger.info(
        "%s: logits within %.1e of the processor's, KL %.1e, same first choice %.1f%%",
        what,
        difference,
        kl,
        100 * same,
    )


def _limit_of(variant: Variant) -> _Limit:
    """The limit for a variant; formats of NPUs name the bits of activations, too: w8a8."""
    if variant.weights_format == "fp32":
        return WIDE
    if not variant.weights_format.endswith("a8"):
        return NARROW
    known = variant.distance
    own = known.kl if known is not None and known.reference == "fp32" else 0.0
    return _Limit(STEPPED.difference, max(STEPPED.kl, ROUNDINGS * own))


def log_distance(folder: Path, manifest: Manifest, variant: str, device: Device) -> None:
    """Logs how far a target variant on another provider is from itself on the processor."""
    if device.provider != CPU:
        found = _distance_from_processor(folder, manifest, variant, device)
        logger.info("target %s: %s", variant_title(variant, device.provider), found)


def _distance_from_processor(
    folder: Path, manifest: Manifest, variant: str, device: Device
) -> Distance:
    """The distance on built-in texts."""
    target, tokenizer = manifest.target, load_tokenizer(folder)
    there, here = _both(folder, manifest, variant, device)
    texts = [tokenizer.encode(text).ids for text in sample_texts(target)]
    samples = samples_for(here, texts, target.is_encoder_decoder)
    return distance(here, there, samples, CPU)


def _both(folder: Path, manifest: Manifest, variant: str, device: Device) -> list[OrtModel]:
    """A target on a device, and on the processor; one that reads sound has a sample of it."""
    models = []
    for where in (device, Device(device.threads)):
        model = open_model(folder, manifest.target, variant, device=where, min_rows=2)
        hear_sample(folder, manifest.target, variant, model)
        models.append(model)
    return models


def _logits(model: Model, prompt: list[int], text: list[int]) -> npt.NDArray[np.float32]:
    """Logits after the prompt and each token of `text` but the last."""
    pending = model.prefill(prompt)
    return model.score([pending, *text[:-1]]).copy()


@contextmanager
def left_out_if_it_cannot(what: str, provider: str) -> Iterator[None]:
    """Logs the error of a model that does not run on another provider, and continues without it.

    Errors on the processor, and usage errors, are raised.
    """
    try:
        yield
    except EdgespecError as error:
        if provider == CPU or isinstance(error, UsageError):
            raise
        logger.info("%s: left out (%s)", what, error)

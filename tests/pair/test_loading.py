"""Claim: costs are estimated from a variant's number formats, whatever the variant is called."""

from __future__ import annotations

import pytest

import edgespec
from edgespec.artifact.manifest import read_manifest
from edgespec.costs.cost_model import estimated_costs
from edgespec.device.device import Device
from edgespec.device.kernels import kernels_for
from edgespec_export.export_pair import export_pair
from edgespec_export.quantization.formats import FORMATS


@pytest.fixture(scope="module")
def folder(tiny_checkpoints, tmp_path_factory):
    target, draft = tiny_checkpoints
    folder = tmp_path_factory.mktemp("caches") / "pair"
    formats = {"target_formats": ["int8"], "cache_formats": ["fp32", "fp16"]}
    export_pair(str(target), str(draft), folder, threads=1, measure=False, **formats)
    return folder


def test_a_variant_knows_the_formats_of_its_weights_and_of_its_cache(folder):
    variants = read_manifest(folder).target.variants
    formats = {name: (v.weights_format, v.cache_format) for name, v in variants.items()}
    assert formats == {"int8": ("int8", "fp32"), "int8-cache-fp16": ("int8", "fp16")}


@pytest.mark.parametrize("variant", ["int8", "int8-cache-fp16"])
def test_a_variant_with_another_cache_takes_the_curve_of_its_weights(folder, variant):
    pair = edgespec.load(folder, threads=1, target_format=variant, allow_inexact=True)
    sizes = (pair.manifest.bytes("target", variant), pair.manifest.bytes("draft", "fp32"))
    kernels = kernels_for(Device(1))
    int8, other = (
        estimated_costs(
            *sizes, 16, FORMATS[format_].row_cost, min_rows=2, kernels=kernels and kernels.target
        )
        for format_ in ("int8", "fp32")
    )
    assert list(pair.costs["model"].verify) == list(int8.verify) != list(other.verify)


@pytest.mark.parametrize("threads", [0, -1, 1025, 100_000, 10**19])
def test_a_number_of_threads_out_of_range_is_refused_at_once(folder, threads):
    with pytest.raises(edgespec.UsageError, match=r"threads is .*; give a whole number from 1 to"):
        edgespec.load(folder, threads=threads)

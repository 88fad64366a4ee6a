"""Claim: a number format says all that devices must know of it, and what it says is true.

Every test runs for every entry of `FORMATS`, so that a new format cannot be forgotten.
"""

from __future__ import annotations

import dataclasses
import re

import onnx
import pytest
from click import Option

from checkpoints import write_llama
from edgespec.artifact.manifest import Manifest, read_manifest
from edgespec.cli.commands.export_command import export
from edgespec_export.export_pair import export_pair
from edgespec_export.hosts.web import WEB_FORMATS
from edgespec_export.quantization.formats import FORMATS, Format

# Operators of the standard and of ONNX Runtime that multiply rows by weights.
PRODUCTS = {"Conv", "Einsum", "Gemm", "MatMul", "MatMulInteger", "MatMulNBits", "QLinearMatMul"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model whose sizes all kernels take, in every format."""
    base = tmp_path_factory.mktemp("formats")
    checkpoint = write_llama(base / "c", heads=2, head_size=16, width=64, inner=128)
    export_pair(
        str(checkpoint),
        None,
        base / "pair",
        target_formats=list(FORMATS),
        calibration="none",
        measure=False,
    )
    return base / "pair"


@pytest.fixture(scope="module")
def manifest(folder) -> Manifest:
    return read_manifest(folder)


def test_a_format_has_no_field_that_can_be_left_out():
    missing = dataclasses.MISSING
    for field in dataclasses.fields(Format):
        assert field.default is missing
        assert field.default_factory is missing


@pytest.mark.parametrize("name", FORMATS)
def test_the_manifest_has_what_a_format_says(manifest, name):
    variant = manifest.target.variants[name]
    assert variant.run_by_kernels is FORMATS[name].run_by_kernels
    assert variant.row_cost == FORMATS[name].row_cost


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_run_by_kernels_where_no_product_is_the_runtimes(folder, manifest, name):
    """The bodies of edgespec's operators have such products, but kernels run in their place."""
    path = folder / manifest.target.variants[name].graphs["decoder"]
    nodes = onnx.load(path, load_external_data=False).graph.node
    assert FORMATS[name].run_by_kernels is not any(node.op_type in PRODUCTS for node in nodes)


@pytest.mark.parametrize("name", FORMATS)
def test_the_help_of_export_names_each_format(name):
    texts = {option.name: option.help for option in export.params if isinstance(option, Option)}
    for option in ("target_formats", "draft_formats"):
        assert name in re.split(r"[,;\s]+", texts[option])


def test_formats_for_the_web_are_those_that_say_so():
    assert set(WEB_FORMATS) == {name for name, each in FORMATS.items() if each.web is not None}


@pytest.mark.parametrize("cost", [-0.01, 1.5, float("nan")])
def test_a_cost_that_is_no_share_of_a_step_is_refused(cost):
    said = FORMATS["int8"].row_cost
    for field in ("marginal", "marginal_with_kernels", "arithmetic"):
        with pytest.raises(ValueError, match=r"a position costs .* steps, not 0 to 1"):
            dataclasses.replace(said, **{field: cost})
    with pytest.raises(ValueError, match="not 0 to 1"):
        dataclasses.replace(said, arithmetic_on={"avx2": cost})

"""Claim: a family says what others must know of it to pair it."""

from __future__ import annotations

import pytest

from bart_checkpoints import write_bart
from checkpoints import write_llama, write_t5
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.families import FAMILIES, Family
from edgespec_export.families.tensor_check import fitted


@pytest.fixture
def llama(tmp_path) -> Family:
    return fitted(open_checkpoint(resolve(str(write_llama(tmp_path / "llama")))))


@pytest.fixture
def t5(tmp_path) -> Family:
    return fitted(open_checkpoint(resolve(str(write_t5(tmp_path / "t5")))))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_transformers_runs_a_family_unless_it_reads_its_target_or_has_code_of_its_own(family):
    reads_target = family.target_inputs is not None
    has_own_code = ".own_code." in family.__module__
    assert (family.transformers_class is None) == (reads_target or has_own_code)


def test_a_target_outputs_what_a_draft_reads_of_it(llama, t5):
    with_states = llama.with_layer_outputs([1, llama.layers])
    assert with_states is not None
    assert with_states.features == 2 * llama.width
    with_encoder = t5.with_encoder_output()
    assert with_encoder is not None
    assert with_encoder.features == t5.width
    of_decoder = t5.with_layer_outputs([1, t5.layers])
    assert of_decoder is not None
    assert of_decoder.features == 2 * t5.width


@pytest.mark.parametrize("layers", [[0], [4], [1, 4]])
def test_a_target_has_no_outputs_of_layers_that_it_lacks(llama, t5, layers):
    assert llama.layers == t5.layers == 3
    assert llama.with_layer_outputs(layers) is None
    assert t5.with_layer_outputs(layers) is None


def test_a_target_cannot_output_what_its_kind_does_not_compute(llama, tmp_path):
    assert llama.with_encoder_output() is None
    bart = fitted(open_checkpoint(resolve(str(write_bart(tmp_path / "bart", "bart")))))
    assert bart.with_layer_outputs([1]) is None


def test_a_model_with_an_encoder_is_not_paired_with_one_without(llama, t5):
    for draft, target in ((llama, t5), (t5, llama)):
        with pytest.raises(EdgespecError, match="one has an encoder, one has none"):
            draft.prepared_target(target)


def test_a_target_of_an_ordinary_draft_is_as_it_was(llama, t5):
    assert llama.prepared_target(llama) is llama
    assert t5.prepared_target(t5) is t5

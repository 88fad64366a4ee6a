"""Claim: without --target-format a target is int8 if that changes it little; a line says so."""

from __future__ import annotations

import dataclasses
import logging

import pytest

import edgespec
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec_export import default_format, measure_variants
from edgespec_export.default_format import COMPARED_BYTES, MAX_KL, candidate_formats
from edgespec_export.export_pair import export_pair


@pytest.fixture
def exported(tiny_checkpoints, tmp_path, caplog):
    """Exports without a target format: the folder, its manifest and the lines of the log."""

    def exported(**options):
        target, draft = map(str, tiny_checkpoints)
        with caplog.at_level(logging.INFO, logger="edgespec"):
            export_pair(target, draft, tmp_path / "pair", target_formats=None, threads=1, **options)
        lines = [record.getMessage() for record in caplog.records]
        return tmp_path / "pair", read_manifest(tmp_path / "pair"), lines

    return exported


def check_files(folder, manifest) -> None:
    """The folder holds what the manifest records, and nothing else."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {name for name in found if not name.startswith((".", "edgespec"))} >= set(manifest.files)
    targets = {name for name in found if name.startswith("target/")}
    assert targets == {name for name in manifest.files if name.startswith("target/")}


def test_int8_is_taken_where_it_is_near_fp32(exported):
    folder, manifest, lines = exported()
    (variant,) = manifest.target.variants.values()
    assert list(manifest.target.variants) == ["int8"]
    assert 0 < variant.distance.kl <= MAX_KL
    assert f"target format: int8, near fp32 ({variant.distance})" in lines
    assert not any(line.startswith("target fp32: ") for line in lines)  # needless, so not measured
    check_files(folder, manifest)
    assert not (folder / "target" / "fp32").exists()
    assert edgespec.load(folder, threads=1).generate("abc", max_new_tokens=3).token_ids


@one_in(2)
@pytest.mark.parametrize("caches", [("int8",), ("fp16", "int8")])
def test_fp32_is_the_default_where_no_cache_is_fp32(exported, caches):
    """Distances are from the variant whose weights and cache are fp32: without it there is none."""
    folder, manifest, lines = exported(cache_formats=caches)
    assert list(manifest.target.variants) == [f"fp32-cache-{cache}" for cache in caches]
    assert "target format: fp32, because int8 was not compared with it" in lines
    check_files(folder, manifest)
    assert not (folder / "target" / "int8").exists()


def test_fp32_is_the_default_where_int8_is_too_far(exported, monkeypatch):
    monkeypatch.setattr(default_format, "MAX_KL", 0.0)
    folder, manifest, lines = exported()
    assert list(manifest.target.variants) == ["fp32"]
    assert "target format: fp32, because int8 is too far (more than KL 0.0)" in lines
    assert manifest.target.variants["fp32"].row_invariance.is_row_invariant
    check_files(folder, manifest)
    assert not (folder / "target" / "int8").exists()
    assert edgespec.load(folder, threads=1).generate("abc", max_new_tokens=3).token_ids


def test_fp32_is_the_default_where_int8_cannot_verify(exported, monkeypatch):
    original = measure_variants.measure_row_invariance

    def without_int8(folder, model, variant, device):
        found = original(folder, model, variant, device)
        return dataclasses.replace(found, is_row_invariant=variant == "fp32")

    monkeypatch.setattr(measure_variants, "measure_row_invariance", without_int8)
    _, manifest, lines = exported()
    assert list(manifest.target.variants) == ["fp32"]
    assert "target format: fp32, because int8 is not row-invariant here" in lines


def test_the_chosen_format_has_all_cache_formats(exported):
    folder, manifest, _ = exported(cache_formats=["fp32", "int8"])
    assert list(manifest.target.variants) == ["int8", "int8-cache-int8"]
    check_files(folder, manifest)


def test_a_target_that_may_not_be_loaded_stays_as_it_is(exported):
    _, manifest, _ = exported(measure=False)
    assert list(manifest.target.variants) == ["fp32"]


def test_a_large_target_is_int8_without_being_compared(exported, monkeypatch):
    monkeypatch.setattr(default_format, "COMPARED_BYTES", 1000)
    _, manifest, lines = exported()
    assert list(manifest.target.variants) == ["int8"]
    assert manifest.target.variants["int8"].distance is None
    assert any(line.startswith("target format: int8, by size (") for line in lines)


@pytest.mark.parametrize(
    ("size", "measure", "formats"),
    [
        (COMPARED_BYTES, True, ("int8", "fp32")),
        (COMPARED_BYTES, False, ("fp32",)),
        (COMPARED_BYTES + 1, True, ("int8",)),
        (COMPARED_BYTES + 1, False, ("int8",)),
    ],
)
def test_the_size_decides_what_is_written(size, measure, formats):
    assert candidate_formats(size, measure) == formats

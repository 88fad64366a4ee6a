"""Claim: a target speculates only where it was found exact on this very machine.

What was measured elsewhere, with another number of threads or for another graph is measured again,
once, and the result is written into the pair's folder.
"""

from __future__ import annotations

import dataclasses
import json

import pytest
from click.testing import CliRunner

import edgespec
from depth import one_in
from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.manifest import Manifest, read_manifest, write_manifest
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.cli.main import main
from edgespec.device.device import HERE, Device
from edgespec.device.kernels import OFF, SWITCH, installed_kernels
from edgespec.pair.opening import invariance_cache
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE
from edgespec.pair.opening.runtime import machine_of, measure_row_invariance
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.machine import Machine
from logged import logged_lines

ELSEWHERE = "onnxruntime 1.0 on a telephone"


def with_invariance(manifest: Manifest, is_row_invariant: RowInvariance | None) -> Manifest:
    variant = dataclasses.replace(manifest.target.variants["fp32"], row_invariance=is_row_invariant)
    target = dataclasses.replace(manifest.target, variants={"fp32": variant})
    return dataclasses.replace(manifest, target=target)


@pytest.fixture
def from_elsewhere(own_pair):
    """A pair that was exported on another machine."""
    (own_pair / INVARIANCE_FILE).unlink(missing_ok=True)
    manifest = read_manifest(own_pair)
    found = manifest.target.variants["fp32"].row_invariance
    foreign = dataclasses.replace(found, measured_on=ELSEWHERE, machine="0" * 64)
    write_manifest(with_invariance(manifest, foreign), own_pair)
    return own_pair


@pytest.fixture
def measurements(monkeypatch):
    """Which variants were measured with how many threads; each is found exact."""
    made = []

    def measured(folder, exported, variant, device, **how):
        made.append((variant, device.threads, *how.values()))
        return measure_row_invariance(folder, exported, variant, device, **how)

    monkeypatch.setattr(invariance_cache, "measure_row_invariance", measured)
    return made


def load(folder, **options):
    """The pair, and the lines that were logged while it was loaded."""
    with logged_lines() as lines:
        return edgespec.load(folder, **options), lines


def test_what_export_found_on_this_machine_is_not_measured_again(tiny_folder, measurements):
    load(tiny_folder, threads=1)
    assert measurements == []


def test_a_pair_from_another_machine_is_measured_once(from_elsewhere, measurements):
    pair, said = load(from_elsewhere, threads=1)
    assert measurements == [("fp32", 1, "short")]
    assert "testing whether it verifies exactly on this machine" in said[0]
    assert pair.generate("text", max_new_tokens=8, gamma=2).stats.drafted > 0
    _, said = load(from_elsewhere, threads=1)
    assert measurements == [("fp32", 1, "short")]
    assert said == []


def test_the_same_machine_in_other_words_is_the_same_machine(own_pair, measurements, monkeypatch):
    (own_pair / INVARIANCE_FILE).unlink(missing_ok=True)
    load(own_pair, threads=2)
    assert measurements == [("fp32", 2, "short")]
    monkeypatch.setattr(Machine, "__str__", lambda self: f"the computer {self.processor}")
    for threads in (1, 2):  # from the manifest, and from the folder's own results
        load(own_pair, threads=threads)
    assert measurements == [("fp32", 2, "short")]


def test_everything_in_a_machines_record_is_in_its_digest():
    machine = machine_of(Device(1))
    others = [
        dataclasses.replace(machine, **{field.name: "another"})
        for field in dataclasses.fields(machine)
    ]
    assert len({machine.digest, *(other.digest for other in others)}) == len(others) + 1


def test_a_draft_on_another_device_is_part_of_the_machine():
    alone, same, both = (machine_of(Device(1), draft) for draft in (None, Device(1), Device(2)))
    assert alone == same != both
    assert str(both) == f"{alone}; draft: {machine_of(Device(2))}"


def test_another_number_of_threads_is_another_machine(from_elsewhere, measurements):
    for threads in (1, 2, 1, 2):
        load(from_elsewhere, threads=threads)
    assert measurements == [("fp32", 1, "short"), ("fp32", 2, "short")]


def test_a_pair_exported_without_measuring_is_measured(own_pair, measurements):
    (own_pair / INVARIANCE_FILE).unlink()
    write_manifest(with_invariance(read_manifest(own_pair), None), own_pair)
    pair, _ = load(own_pair)
    assert measurements == [("fp32", None, "short")]
    assert pair.generate("text", max_new_tokens=8, gamma=2).stats.drafted > 0


def test_exact_elsewhere_and_not_here_means_no_speculation(from_elsewhere, monkeypatch):
    def inexact(*arguments, **how):
        found = measure_row_invariance(*arguments, **how)
        return dataclasses.replace(found, is_row_invariant=False)

    monkeypatch.setattr(invariance_cache, "measure_row_invariance", inexact)
    for _ in range(2):  # measured, and remembered
        pair, _ = load(from_elsewhere)
        with pytest.raises(edgespec.EdgespecError, match="not row-invariant on this machine"):
            pair.generate("text", gamma=2)
        assert pair.generate("text", max_new_tokens=4, draft=False).token_ids


def test_a_result_belongs_to_one_graph(own_pair, measurements):
    manifest = read_manifest(own_pair)
    graph = manifest.target.variants["fp32"].graphs[DECODER]
    manifest.files[graph] = dataclasses.replace(manifest.files[graph], sha256="0" * 64)
    assert (
        invariance_cache.known_invariance(own_pair, with_invariance(manifest, None), "fp32", HERE)
        is None
    )
    assert (
        invariance_cache.known_invariance(own_pair, read_manifest(own_pair), "fp32", HERE)
        is not None
    )


ENTRY = """[{{"graph": "{graph}", "row_invariance": {{"is_row_invariant": true,
    "min_rows": {least}, "max_rows": {most}, "one_row_difference": 0.0, "measured_on": "here",
    "machine": "{machine}", "candidates": false}}}}]"""


@one_in(2, turn=1)
@pytest.mark.parametrize(("least", "most"), [(0, 17), (10**9, 10**9), (2, 40), (2, -3)])
def test_an_impossible_entry_is_ignored(from_elsewhere, measurements, least, most):
    manifest = read_manifest(from_elsewhere)
    graph = manifest.files[manifest.target.variants["fp32"].graphs[DECODER]].sha256
    machine = machine_of(Device(1)).digest
    entry = ENTRY.format(graph=graph, least=least, most=most, machine=machine)
    (from_elsewhere / INVARIANCE_FILE).write_text(entry)
    load(from_elsewhere, threads=1)
    assert measurements == [("fp32", 1, "short")]


@one_in(2)
@pytest.mark.parametrize("damage", ["", "{", "[1]", '[{"graph": 1}]', "[" * 9999])
def test_a_damaged_file_of_results_is_written_again(from_elsewhere, measurements, damage):
    (from_elsewhere / INVARIANCE_FILE).write_text(damage)
    load(from_elsewhere)
    assert measurements == [("fp32", None, "short")]
    assert len(json.loads((from_elsewhere / INVARIANCE_FILE).read_text())) == 1


def test_in_a_folder_that_cannot_be_written_it_is_measured_each_time(
    from_elsewhere, measurements, monkeypatch
):
    def read_only(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(invariance_cache, "write_json", read_only)
    for _ in range(2):
        pair, _ = load(from_elsewhere)
        assert pair.generate("text", max_new_tokens=8, gamma=2).stats.drafted > 0
    assert len(measurements) == 2


def test_with_allow_inexact_nothing_is_measured(from_elsewhere, measurements):
    pair, _ = load(from_elsewhere, allow_inexact=True)
    run = CliRunner().invoke(
        main, ["generate", str(from_elsewhere), "text", "--no-draft", "-n", "4"]
    )
    assert run.exit_code == 0
    assert measurements == []
    assert pair.generate("text", max_new_tokens=8, gamma=2).stats.drafted > 0


def test_no_more_tokens_are_drafted_than_were_found_exact(from_elsewhere):
    manifest = read_manifest(from_elsewhere)
    pair, _ = load(from_elsewhere, threads=1)
    found = invariance_cache.known_invariance(from_elsewhere, manifest, "fp32", Device(1))
    assert pair.generate("text", max_new_tokens=20, gamma=found.max_rows - 1).token_ids
    with pytest.raises(edgespec.UsageError, match="exact for at most 16"):
        pair.generate("text", gamma=found.max_rows)


# --- Kernels have the same bits everywhere ------------------------------------------------------


@pytest.fixture
def int8_from_elsewhere(own_checkpoints, tmp_path):
    """A pair in int8 from another machine, with changes to what was found there."""
    if installed_kernels() is None:
        pytest.skip("there are no kernels here")
    target, draft = map(str, own_checkpoints)
    folder = tmp_path / "pair"
    export_pair(target, draft, folder, target_formats=["int8"], threads=1)

    def changed(**changes):
        manifest = read_manifest(folder)
        variant = manifest.target.variants["int8"]
        elsewhere = {"measured_on": ELSEWHERE, "machine": "0" * 64}
        found = dataclasses.replace(variant.row_invariance, **(elsewhere | changes))
        variant = dataclasses.replace(variant, row_invariance=found)
        whole = dataclasses.replace(manifest.target, variants={"int8": variant})
        write_manifest(dataclasses.replace(manifest, target=whole), folder)
        return folder

    return changed


def test_a_few_calls_confirm_what_kernels_computed_elsewhere(int8_from_elsewhere, measurements):
    folder = int8_from_elsewhere()
    pair, said = load(folder, threads=2)
    assert measurements == [("int8", 2, "check")]
    assert said == []
    assert pair.generate("text", max_new_tokens=8, gamma=2).stats.drafted > 0
    load(folder, threads=2)
    assert measurements == [("int8", 2, "check")]


def test_a_few_calls_confirm_what_kernels_computed_with_other_threads(
    int8_from_elsewhere, measurements
):
    """Of a pair that was exported without measuring."""
    folder = int8_from_elsewhere(kernels="")
    load(folder, threads=1)
    assert measurements == [("int8", 1, "short")]
    load(folder, threads=2)
    assert measurements == [("int8", 1, "short"), ("int8", 2, "check")]
    written = json.loads((folder / INVARIANCE_FILE).read_text())
    written[0]["row_invariance"]["logits"] = "0" * 64
    (folder / INVARIANCE_FILE).write_text(json.dumps(written[:1]))
    load(folder, threads=2)
    assert measurements[2:] == [("int8", 2, "check"), ("int8", 2, "short")]


@pytest.mark.parametrize(
    "change", [{"logits": "0" * 64}, {"candidates": False}, {"min_rows": 2}], ids=str
)
def test_other_logits_than_elsewhere_are_measured(int8_from_elsewhere, measurements, change):
    load(int8_from_elsewhere(**change), threads=1)
    assert measurements == [("int8", 1, "check"), ("int8", 1, "short")]


@pytest.mark.parametrize("kernels", ["", "edgespec-kernels 0.4.9"])
def test_other_kernels_than_elsewhere_are_measured(int8_from_elsewhere, measurements, kernels):
    load(int8_from_elsewhere(kernels=kernels), threads=1)
    assert measurements == [("int8", 1, "short")]


def test_without_kernels_all_is_measured(int8_from_elsewhere, measurements, monkeypatch):
    monkeypatch.setenv(SWITCH, OFF)
    load(int8_from_elsewhere(), threads=1)
    assert measurements == [("int8", 1, "short")]


def test_a_model_with_products_of_the_runtime_is_measured(from_elsewhere, measurements):
    load(from_elsewhere, threads=1)
    assert measurements == [("fp32", 1, "short")]

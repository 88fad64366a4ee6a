"""Claim: a model runs on any execution provider of ONNX Runtime, and is measured there again.

The plug-in comes from PyPI: it runs two operators of an int8 Llama, if its head does not return top
tokens, and none of a float32 one.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import re
import shutil
from types import SimpleNamespace

import onnxruntime as ort
import pytest

import edgespec
from command import run
from depth import deep, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import CPU, Device
from edgespec.pair.opening import invariance_cache
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE, known_invariance
from edgespec.pair.opening.profile import Profile, write_profile
from edgespec.pair.opening.runtime import machine_of, measure_row_invariance
from edgespec_export.export_pair import export_pair
from edgespec_export.quantization.int8 import Int8
from edgespec_runtimes.ort import providers, session
from edgespec_runtimes.ort.providing.plugins import Plugins
from logged import logged_lines
from profiles import profile
from rotated_float import RotatedFloat

PLUGIN = "cpu_ep"
SUFFIX = "ExecutionProvider"
PROMPT = list(range(5, 25))


@pytest.fixture(scope="module")
def exported(tiny_checkpoints, tmp_path_factory):
    """The tiny pair with int8 variants, which the plug-in runs in part. Copy it to change it."""
    pytest.importorskip("nxrt_ep_cpu", reason="this system has no such plug-in")
    target, draft = tiny_checkpoints
    folder = tmp_path_factory.mktemp("providers") / "pair"
    formats = {"target_formats": ["int8", "fp32"], "draft_formats": ["int8", "fp32"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Int8, "head", RotatedFloat.head)
        export_pair(str(target), str(draft), folder, threads=1, **formats)
    return folder


@pytest.fixture
def folder(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "pair")
    return tmp_path / "pair"


def load(folder, **options):
    """The pair, and the lines that were logged while it was loaded."""
    with logged_lines() as lines:
        return edgespec.load(folder, threads=1, **options), lines


# --- names and devices ---------------------------------------------------------------------------


def test_the_cpu_comes_first_and_plug_ins_are_found_by_package(exported):
    first, *others = run("providers").stdout.splitlines()
    assert first.split()[:2] == [CPU, "CPUExecutionProvider"]
    assert any(line.startswith(f"{PLUGIN} ") for line in others)
    data = json.loads(run("providers", "--json").stdout)["providers"]
    (plugin,) = (one for one in data if one["name"] == PLUGIN)
    assert plugin["version"] == importlib.metadata.version("nxrt-ep-cpu")
    assert " cpu " in plugin["hardware"]


@pytest.mark.parametrize("asked", [PLUGIN, "CPU_EP", "cpu_ep:cpu"])
def test_a_provider_is_found_by_its_name_and_its_device(exported, asked):
    assert providers.find_provider(asked).title == "cpu_ep"


@pytest.mark.parametrize("asked", ["tpu", "cpu_ep:npu", "azure"])
def test_a_missing_provider_is_one_line(exported, asked):
    said = run("generate", exported, "text", "--provider", asked, code=2).stderr
    assert f"there is no provider {asked!r} here; there is: cpu, " in said
    assert len(said.splitlines()) == 1


def test_devices_of_a_plug_in_are_told_apart_by_kind(monkeypatch):
    def device(kind, number):
        hardware = SimpleNamespace(
            type=SimpleNamespace(name=kind), vendor="Maker", vendor_id=0x8086, device_id=number
        )
        metadata = {"library_path": "x.so", "version": "1.8"}
        return SimpleNamespace(
            ep_name="WideExecutionProvider", ep_metadata=metadata, device=hardware
        )

    kinds = [device("CPU", 0), device("GPU", 1), device("GPU", 2), device("NPU", 3)]
    monkeypatch.setattr(ort, "get_ep_devices", lambda: kinds)
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CPUExecutionProvider"])
    names = [one.name for one in providers.all_providers()]
    assert names == [CPU, "wide:cpu", "wide:gpu", "wide:npu"]
    assert providers.find_provider("wide").device is kinds[0]
    assert providers.find_provider("Wide:GPU").device is kinds[1]
    told = str(providers.find_provider("wide:npu").info)
    assert told == "WideExecutionProvider 1.8 Maker npu 0x8086:0x0003"


def test_the_reason_why_a_plug_in_is_unusable_is_reported(monkeypatch):
    line = "broken-ep-thing cannot be used (no such library)"
    monkeypatch.setattr(providers, "load_plugins", lambda: Plugins({}, [line]))
    assert run("providers").stderr.splitlines() == [line]
    with pytest.raises(edgespec.UsageError, match="broken-ep-thing cannot be used"):
        providers.find_provider("thing")


def test_a_provider_that_the_runtime_would_silently_drop_is_refused(tiny_folder, monkeypatch):
    here = ort.get_available_providers()
    missing = next(name for name in ("CUDA", "MIGraphX", "QNN") if f"{name}{SUFFIX}" not in here)
    titles = [*here, f"{missing}{SUFFIX}"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: titles)
    with pytest.raises(edgespec.EdgespecError, match="lacks a library or its hardware"):
        load(tiny_folder, provider=missing)


def test_a_session_that_fails_does_not_fall_back_to_another_provider(exported, monkeypatch, capsys):
    """ONNX Runtime by itself prints a message and falls back to the processor."""

    def full(*_):
        raise RuntimeError("device out of memory")

    monkeypatch.setattr(ort.InferenceSession, "_create_inference_session", full)
    with pytest.raises(edgespec.EdgespecError, match=r"cpu_ep \(device out of memory\); take ano"):
        load(exported, provider=PLUGIN, target_format="fp32")
    assert capsys.readouterr().out == ""


def test_a_call_that_fails_on_a_device_names_it_in_one_line(exported, monkeypatch):
    pair, _ = load(exported, provider=PLUGIN)

    def full(*_):
        raise RuntimeError("device out of memory\nat line 5")

    monkeypatch.setattr(ort.InferenceSession, "run_with_iobinding", full)
    with pytest.raises(edgespec.EdgespecError) as error:
        pair.generate(PROMPT, draft=False, max_new_tokens=4)
    assert str(error.value) == (
        "the model cannot be run on cpu_ep (device out of memory); if its memory is full, give "
        "less --capacity, or take another provider (cpu)"
    )


def test_a_graph_that_a_device_does_not_take_whole_is_one_line(tiny_folder, monkeypatch):
    """As one with fixed shapes that is too wide for an NPU; `make test-npu` has one of 65,536
    positions, which Qualcomm's compiler refuses."""

    def refused(*_, providers, **__):
        assert providers == [("ChipProvider", {})]  # with the processor beside it none runs wholly
        raise RuntimeError("failed to compile the graph: 1002\nQnnGraph_finalize")

    info = dataclasses.replace(providers.processor().info, name="chip", title="ChipProvider")
    monkeypatch.setattr(session, "find_provider", lambda _: providers.Provider(info))
    monkeypatch.setattr(ort, "InferenceSession", refused)
    graph = tiny_folder / read_manifest(tiny_folder).target.variants["fp32"].graphs["decoder"]
    with pytest.raises(edgespec.EdgespecError) as error:
        session.open_session(graph, Device(1, "chip"), "fp16")
    assert str(error.value) == (
        f"{graph} cannot be loaded on chip (failed to compile the graph: 1002); export it with "
        "less --capacity or --gamma, or take another provider (cpu)"
    )


def test_a_provider_that_is_gone_at_the_next_start_is_one_line(folder, monkeypatch):
    load(folder, provider=PLUGIN)
    monkeypatch.setattr(ort, "get_ep_devices", list)
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CPUExecutionProvider"])
    monkeypatch.setattr(providers, "load_plugins", lambda: Plugins({}, ["it is not there"]))
    with pytest.raises(edgespec.UsageError, match=f"no provider '{PLUGIN}' here.*it is not there"):
        load(folder, provider=PLUGIN)
    assert load(folder)[0].generate(PROMPT, max_new_tokens=4).token_ids


def test_a_built_in_provider_is_identified_by_its_hardware(monkeypatch):
    def device(number):
        hardware = SimpleNamespace(
            type=SimpleNamespace(name="GPU"), vendor="Maker", vendor_id=0x10DE, device_id=number
        )
        return SimpleNamespace(ep_name="BigExecutionProvider", ep_metadata={}, device=hardware)

    titles = ["BigExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: titles)
    told = []
    for number in (1, 2):
        monkeypatch.setattr(ort, "get_ep_devices", lambda number=number: [device(number)])
        found = providers.find_provider("big")
        assert not found.plugged_in
        told.append(machine_of(Device(1, "big")).digest)
    assert told[0] != told[1]


@pytest.mark.parametrize("name", [5, "", b"cpu", None], ids=str)
def test_a_value_that_is_not_a_provider_name_is_refused(name):
    with pytest.raises(edgespec.UsageError, match="there is no provider"):
        providers.find_provider(name)


# --- models on a provider ------------------------------------------------------------------------


def test_a_provider_that_runs_no_operator_is_refused(folder):
    arguments = ("generate", folder, "text", "--threads", 1, "--target-format", "fp32")
    said = run(*arguments, "--provider", PLUGIN, code=1).stderr.splitlines()
    assert said[-1].startswith("edgespec: cpu_ep runs none of the ")
    assert said[-1].endswith("operators of target/fp32/decoder.onnx; take another provider (cpu)")


@one_in(2)
@pytest.mark.parametrize("target", [CPU, PLUGIN])
@pytest.mark.parametrize("draft", [CPU, PLUGIN])
@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": 1.0, "seed": 3}], ids=["greedy", "sampled"]
)
def test_the_text_is_the_targets_on_any_providers(exported, target, draft, sampling):
    pair, said = load(exported, provider=target, draft_provider=draft)
    text = pair.generate(PROMPT, draft="model", gamma=3, max_new_tokens=40, **sampling)
    if not sampling:
        plain = pair.generate(PROMPT, draft=False, max_new_tokens=40)
        assert text.token_ids == plain.token_ids
    assert text.stats.accepted > 0
    assert (text.settings.provider, text.settings.draft_provider) == (target, draft)
    runs = [line for line in said if re.search(r"\d+ of \d+ operators", line)]
    assert len(runs) == [target, draft].count(PLUGIN)


def test_a_draft_runs_on_its_targets_provider_by_default(exported):
    settings = load(exported, provider=PLUGIN)[0].generate(PROMPT, max_new_tokens=4).settings
    assert (settings.provider, settings.draft_provider) == (PLUGIN, PLUGIN)


def test_row_invariance_on_one_provider_does_not_count_for_another(folder, monkeypatch):
    """Row-invariant on the processor, measured otherwise on the plug-in: both are recorded."""
    (folder / INVARIANCE_FILE).unlink(missing_ok=True)
    asked = []

    def inexact(folder, exported, variant, device, **how):
        asked.append(device)
        found = measure_row_invariance(folder, exported, variant, device, **how)
        return dataclasses.replace(found, is_row_invariant=False)

    monkeypatch.setattr(invariance_cache, "measure_row_invariance", inexact)
    for _ in range(2):
        pair, _ = load(folder, provider=PLUGIN)
        with pytest.raises(edgespec.EdgespecError, match="not row-invariant on this machine"):
            pair.generate(PROMPT, gamma=2)
    assert load(folder)[0].generate(PROMPT, gamma=2, draft="model").stats.drafted > 0
    assert asked == [Device(1, PLUGIN)]
    manifest = read_manifest(folder)
    there, here = (known_invariance(folder, manifest, "int8", Device(1, p)) for p in (PLUGIN, CPU))
    assert (there.is_row_invariant, here.is_row_invariant) == (False, True)
    assert there.machine != here.machine


def test_inspect_measures_on_the_named_provider_what_runs_there(folder):
    (folder / INVARIANCE_FILE).unlink(missing_ok=True)
    asked = ("inspect", folder, "--threads", 1, "--provider")
    assert run(*asked, PLUGIN).stdout.count("elsewhere: row-invariant") == 2
    result = run(*asked, PLUGIN.upper(), "--measure")
    assert "target int8 on cpu_ep: logits within " in result.stderr
    assert "same first choice 100.0%" in result.stderr
    assert "target fp32 on cpu_ep: left out (cpu_ep runs none of" in result.stderr
    assert f"onnxruntime {ort.__version__} cpu_ep" in result.stdout
    assert run(*asked, PLUGIN).stdout == result.stdout
    assert run(*asked, "CPU", "--measure").stdout.count("CPUExecutionProvider") == 2


# --- tuning --------------------------------------------------------------------------------------


def tuned_there(**changes) -> Profile:
    """A profile: the target was fastest on the plug-in, with its draft on the processor."""
    found = {
        "target_format": "int8",
        "draft_format": "int8",
        "gamma": 2,
        "verify": [1.0, 1.1, 1.2],
        "machine": machine_of(Device(1, PLUGIN), Device(1, CPU)).digest,
        "provider": PLUGIN,
    }
    return profile(**{**found, **changes})


THERE = (Device(1, PLUGIN), Device(1, CPU))
HERE = (Device(1, CPU), Device(1, CPU))


@pytest.mark.parametrize("asked", [{}, {"provider": PLUGIN}, {"provider": "cpu_ep:CPU"}], ids=str)
def test_a_tuned_provider_is_used_afterwards(folder, asked):
    write_profile(tuned_there(), folder)
    pair = edgespec.load(folder, **asked)
    assert pair.devices == THERE
    assert list(pair.costs["model"].verify[:3]) == [1.0, 1.1, 1.2]
    assert pair.generate(PROMPT, max_new_tokens=4).settings.gamma == 2
    assert "tuned: target int8 on cpu_ep, draft model int8, γ 2" in run("inspect", folder).stdout


@pytest.mark.parametrize(
    ("asked", "devices"),
    [
        ({"provider": CPU}, HERE),
        ({"target_format": "fp32"}, HERE),
        ({"draft_format": "fp32"}, THERE),
        ({"draft_provider": PLUGIN}, (Device(1, PLUGIN), Device(1, PLUGIN))),
    ],
    ids=str,
)
def test_a_profile_of_another_setting_is_not_used(folder, asked, devices):
    """Its provider is not used either: a model may not run there at all."""
    write_profile(tuned_there(), folder)
    pair = edgespec.load(folder, **asked)
    assert pair.devices == devices
    assert pair.costs["model"].verify[1] != 1.1
    assert pair.generate(PROMPT, max_new_tokens=4).settings.gamma == "auto"


def test_a_drafts_tuned_provider_is_not_used_for_another_format(folder):
    machine = machine_of(Device(1, CPU), Device(1, PLUGIN)).digest
    found = tuned_there(provider=CPU, draft_provider=PLUGIN, machine=machine)
    write_profile(found, folder)
    assert edgespec.load(folder).devices == (Device(1, CPU), Device(1, PLUGIN))
    assert edgespec.load(folder, draft_format="fp32").devices == HERE


@pytest.mark.parametrize(
    "changes",
    [
        {"provider": "gone"},
        {"draft_provider": "gone"},
        {"draft_provider": PLUGIN},  # measured with the draft elsewhere
        {"machine": "0" * 64},
    ],
    ids=str,
)
def test_an_unused_profile_of_other_providers_or_machines_is_reported(folder, changes):
    write_profile(tuned_there(**changes), folder)
    pair, said = load(folder)
    assert "was measured on another machine, or with other software, and is not used" in said[0]
    assert pair.devices == HERE
    assert "is not used" in run("inspect", folder).stderr


@pytest.fixture
def tuned(folder, tmp_path):
    (tmp_path / "texts.txt").write_text("a small text\n")

    def tune(*options, code=0):
        arguments = ("--text", tmp_path / "texts.txt", "-n", 8, "--threads", 1, "--dry-run")
        return run("tune", folder, *arguments, *options, code=code)

    return tune


def test_tuning_tries_every_provider_and_leaves_out_models_that_cannot_run_there(tuned):
    result = tuned("--json", "--provider", CPU, "--provider", PLUGIN, "--provider", "CPU")
    rows = json.loads(result.stdout)["trials"]
    named = ("target_format", "kind", "draft_format", "draft_provider")
    ways = {name: [] for name in (CPU, PLUGIN)}
    for row in rows:
        ways[row["provider"]].append(tuple(row[name] for name in named))
    assert ways[CPU] == [
        (target, *draft)
        for target in ("int8", "fp32")
        for draft in (
            ("none", None, CPU),
            ("lookup", None, CPU),
            ("model", "int8", CPU),
            ("model", "fp32", CPU),
        )
    ]
    assert ways[PLUGIN] == [
        ("int8", "none", None, CPU),
        ("int8", "lookup", None, CPU),
        ("int8", "model", "int8", CPU),
        ("int8", "model", "int8", PLUGIN),
        ("int8", "model", "fp32", CPU),
    ]
    assert "target int8 on cpu_ep: KL 0.0000 from cpu" in result.stderr
    assert "target fp32 on cpu_ep: left out (cpu_ep runs none of" in result.stderr
    assert "draft fp32 on cpu_ep: left out (cpu_ep runs none of" in result.stderr


@deep
def test_all_providers_are_tried_unless_some_are_named(tuned):
    found = {}
    for asked in ((), ("--provider", PLUGIN)):
        rows = json.loads(tuned("--json", *asked).stdout)["trials"]
        found[asked] = {row["provider"] for row in rows}
    every, one = found.values()
    assert every >= {CPU, PLUGIN}
    assert one == {PLUGIN}
    assert "there is no provider 'gone'" in tuned("--provider", "gone", code=2).stderr


def test_a_failure_on_the_processor_is_an_error(tuned, monkeypatch):
    def failing(*_, **__):
        raise edgespec.EdgespecError("it fails")

    monkeypatch.setattr("edgespec.measure.tune._Run.certain", failing)
    result = tuned("--provider", CPU, code=1)
    assert result.stderr.splitlines()[-1] == "edgespec: it fails"
    result = tuned("--provider", PLUGIN, code=2)
    assert "target int8 on cpu_ep: left out (it fails)" in result.stderr
    assert "is exact where it was tried; nothing is tuned" in result.stderr.splitlines()[-1]

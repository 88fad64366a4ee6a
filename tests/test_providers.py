"""Claim: a model runs on any execution provider that ONNX Runtime has, and is judged there anew.

The plug-in is one that PyPI has for this system: it runs a few operators of an int8 Llama, and none
of a float32 one.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from types import SimpleNamespace

import onnxruntime as ort
import pytest

import edgespec
from command import run
from edgespec import verdicts
from edgespec.contract import read_manifest
from edgespec.costs import Costs
from edgespec.device import CPU, Device
from edgespec.export import export_pair
from edgespec.profile import PROFILE, Profile, read_profile, write_profile
from edgespec.runtimes import describe, measure_row_invariance
from edgespec.verdicts import VERDICTS, known_verdict
from edgespec_runtimes import providers

PLUGIN = "cpu_ep"
PROMPT = list(range(5, 25))


@pytest.fixture(scope="module")
def exported(tiny_checkpoints, tmp_path_factory):
    """The tiny pair with int8 variants. Read only: copy it to change it."""
    pytest.importorskip("nxrt_ep_cpu", reason="this system has no such plug-in")
    target, draft = tiny_checkpoints
    folder = tmp_path_factory.mktemp("providers") / "pair"
    formats = {"target_formats": ["int8", "fp32"], "draft_formats": ["int8", "fp32"]}
    export_pair(str(target), str(draft), folder, threads=1, **formats)
    return folder


@pytest.fixture
def folder(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "pair")
    return tmp_path / "pair"


def load(folder, **options):
    """The pair, and what was said while it was loaded."""
    said = []
    return edgespec.load(folder, threads=1, say=said.append, **options), said


# --- which there are -----------------------------------------------------------------------------


def test_the_processor_comes_first_and_plug_ins_are_found_by_their_packages(exported):
    first, *others = run("providers").stdout.splitlines()
    assert first.split() == [CPU, "CPUExecutionProvider"]
    assert any(line.startswith(f"{PLUGIN} ") for line in others)
    data = json.loads(run("providers", "--json").stdout)
    (plugin,) = (one for one in data if one["name"] == PLUGIN)
    assert plugin["version"]
    assert " cpu " in plugin["hardware"]


@pytest.mark.parametrize("asked", [PLUGIN, "CPU_EP", "cpu_ep:cpu"])
def test_a_provider_answers_to_its_name_and_its_device(exported, asked):
    assert providers.find_provider(asked).title == "cpu_ep"


@pytest.mark.parametrize("asked", ["tpu", "cpu_ep:npu", "azure"])
def test_a_provider_that_is_not_here_is_one_line(exported, asked):
    said = run("generate", exported, "text", "--provider", asked, code=2).stderr
    assert f"there is no provider {asked!r} here; there is: cpu, cpu_ep" in said
    assert len(said.splitlines()) == 1


def test_a_plug_in_with_several_devices_is_asked_for_by_their_kind(monkeypatch):
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
    names = [one.name for one in providers.providers()]
    assert names == [CPU, "wide:cpu", "wide:gpu", "wide:npu"]
    assert providers.find_provider("wide").device is kinds[0]
    assert providers.find_provider("Wide:GPU").device is kinds[1]
    told = str(providers.find_provider("wide:npu"))
    assert told == "WideExecutionProvider 1.8 Maker npu 0x8086:0x0003"


def test_what_hinders_a_plug_in_is_said_where_it_is_missed(monkeypatch):
    package = SimpleNamespace(metadata={"Name": "Broken_ep_thing"})
    monkeypatch.setattr(providers, "distributions", lambda: [package])
    (line,) = providers._plugged_in.__wrapped__()
    assert line == "broken-ep-thing cannot be used (No module named 'broken_ep_thing')"
    monkeypatch.setattr(providers, "_plugged_in", lambda: [line])
    with pytest.raises(edgespec.UsageError, match="broken-ep-thing cannot be used"):
        providers.find_provider("thing")


def test_a_provider_that_the_runtime_would_silently_go_without_is_refused(tiny_folder, monkeypatch):
    titles = [*ort.get_available_providers(), "CUDAExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: titles)
    with pytest.raises(edgespec.EdgespecError, match=r"on cuda .*lacks a library or its hardware"):
        load(tiny_folder, provider="cuda")


# --- what runs there -----------------------------------------------------------------------------


def test_a_provider_that_runs_nothing_of_a_model_is_refused(folder):
    arguments = ("generate", folder, "text", "--threads", 1, "--target-format", "fp32")
    said = run(*arguments, "--provider", PLUGIN, code=1).stderr.splitlines()
    assert said[-1].startswith("edgespec: cpu_ep runs none of the ")
    assert said[-1].endswith("operators of target/fp32/decoder.onnx; leave it out")


@pytest.mark.parametrize("target", [CPU, PLUGIN])
@pytest.mark.parametrize("draft", [CPU, PLUGIN])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "seed": 3}], ids=["greedy", "drawn"])
def test_wherever_target_and_draft_run_the_text_is_the_targets(exported, target, draft, sampling):
    pair, said = load(exported, provider=target, draft_provider=draft)
    text = pair.generate(PROMPT, draft="model", gamma=3, max_new_tokens=40, **sampling)
    if not sampling:
        plain = pair.generate(PROMPT, draft=False, max_new_tokens=40)
        assert text.token_ids == plain.token_ids
    assert text.stats.accepted > 0
    assert (text.settings.provider, text.settings.draft_provider) == (target, draft)
    runs = [line for line in said if "operators, the others on the processor" in line]
    assert len(runs) == [target, draft].count(PLUGIN)


def test_a_draft_runs_where_its_target_does_unless_told(exported):
    settings = load(exported, provider=PLUGIN)[0].generate(PROMPT, max_new_tokens=4).settings
    assert (settings.provider, settings.draft_provider) == (PLUGIN, PLUGIN)


def test_exact_on_one_provider_says_nothing_of_another(folder, monkeypatch):
    """Found on the processor by the export; here found otherwise on the plug-in, and kept apart."""
    (folder / VERDICTS).unlink(missing_ok=True)
    asked = []

    def inexact(folder, exported, variant, device):
        asked.append(device)
        found = measure_row_invariance(folder, exported, variant, device)
        return dataclasses.replace(found, verdict=False)

    monkeypatch.setattr(verdicts, "measure_row_invariance", inexact)
    for _ in range(2):
        pair, _ = load(folder, provider=PLUGIN)
        with pytest.raises(edgespec.EdgespecError, match="not row-invariant on this machine"):
            pair.generate(PROMPT, gamma=2)
    assert load(folder)[0].generate(PROMPT, gamma=2, draft="model").stats.drafted > 0
    assert asked == [Device(1, PLUGIN)]
    manifest = read_manifest(folder)
    there, here = (known_verdict(folder, manifest, "int8", Device(1, p)) for p in (PLUGIN, CPU))
    assert (there.verdict, here.verdict) == (False, True)
    assert there.measured_on != here.measured_on


def test_inspect_measures_on_the_provider_that_is_named(folder):
    asked = ("inspect", folder, "--threads", 1, "--provider", PLUGIN)
    (folder / VERDICTS).unlink(missing_ok=True)
    assert "elsewhere: row-invariant" in run(*asked).stdout
    shutil.rmtree(folder / "target" / "fp32")  # of which it would run nothing
    manifest = json.loads((folder / "edgespec.json").read_text())
    manifest["target"]["variants"].pop("fp32")
    files = {name: kept for name, kept in manifest["files"].items() if "target/fp32" not in name}
    (folder / "edgespec.json").write_text(json.dumps({**manifest, "files": files}))
    result = run(*asked, "--measure")
    assert "bitwise" in result.stdout
    assert "target int8 on cpu_ep: KL 0.0000 from cpu, same first choice 100.0%" in result.stderr
    assert f"onnxruntime {ort.__version__} cpu_ep" in run(*asked).stdout


# --- tuning --------------------------------------------------------------------------------------


def profile(**changes) -> Profile:
    usual = {
        "target_format": "int8",
        "draft_format": "int8",
        "draft": "model",
        "gamma": 2,
        "threads": 1,
        "verify": [1.0, 1.1, 1.2],
        "draft_cost": 0.1,
        "step_ms": 1.0,
        "measured_on": describe(Device(1, PLUGIN)),
        "provider": PLUGIN,
        "draft_provider": CPU,
    }
    return Profile(**{**usual, **changes})


def test_a_tuned_provider_is_used_from_then_on(folder):
    write_profile(profile(), folder)
    pair = edgespec.load(folder)
    assert pair.devices == (Device(1, PLUGIN), Device(1, CPU))
    assert list(pair.costs["model"].verify[:3]) == [1.0, 1.1, 1.2]
    assert "tuned: target int8 on cpu_ep, draft model int8, γ 2" in run("inspect", folder).stdout
    named = edgespec.load(folder, provider=CPU)
    assert named.devices == (Device(1, CPU), Device(1, CPU))
    assert named.costs["model"].verify[1] != 1.1  # what was tuned elsewhere says nothing here


def test_a_profile_whose_provider_is_gone_is_not_used_and_says_so(folder):
    for gone in ({"provider": "gone"}, {"draft_provider": "gone"}):
        write_profile(profile(**gone), folder)
        pair, said = load(folder)
        assert "measured on another machine" in said[0]
        assert pair.devices == (Device(1, CPU), Device(1, CPU))


def test_a_profile_from_before_there_was_a_choice_means_the_processor(folder):
    write_profile(profile(measured_on=describe(Device(1))), folder)
    data = json.loads((folder / PROFILE).read_text())
    del data["provider"], data["draft_provider"]
    (folder / PROFILE).write_text(json.dumps(data))
    assert read_profile(folder, read_manifest(folder)).device == Device(1, CPU)
    assert edgespec.load(folder).generate(PROMPT, max_new_tokens=4).settings.gamma == 2


@pytest.fixture
def tuned(folder, tmp_path):
    (tmp_path / "texts.txt").write_text("a small text\n")

    def tune(*options):
        arguments = ("--text", tmp_path / "texts.txt", "-n", 8, "--threads", 1, "--dry-run")
        return run("tune", folder, *arguments, *options)

    return tune


def test_every_provider_is_tried_and_what_cannot_run_there_is_left_out(tuned):
    result = tuned("--json")
    rows = json.loads(result.stdout)["candidates"]
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


def test_only_the_providers_that_are_named_are_tried(tuned):
    for name in (CPU, PLUGIN):
        rows = json.loads(tuned("--json", "--provider", name).stdout)["candidates"]
        assert {row["provider"] for row in rows} == {name}


def test_what_the_processor_cannot_run_is_an_error(tuned, folder):
    (folder / "target" / "fp32" / "decoder.onnx").write_bytes(b"damaged")
    result = run("tune", folder, "--threads", 1, "--provider", CPU, code=1)
    assert "is damaged or half-copied" in result.stderr.splitlines()[-1]
    assert "left out" not in result.stderr


def test_a_guess_is_not_a_cost_that_was_tuned():
    """The two devices are part of what a profile speaks of."""
    found = profile()
    assert found.of("int8", "int8", Device(1, PLUGIN), Device(1, CPU)) is found
    assert found.of("int8", "int8", Device(1, CPU), Device(1, CPU)) is None
    assert found.of("int8", "int8", Device(1, PLUGIN), Device(1, PLUGIN)) is None
    assert isinstance(found.known_costs()["model"], Costs)

"""Claim: a run that is killed at any moment continues and writes the bytes of one that is not,
whether its target's states are stored or computed again."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time

import pytest

from depth import deep
from distillation import PLAN
from edgespec_distill.data import target_outputs as outputs_module
from edgespec_distill.distill_draft import distill
from edgespec_distill.training import training_loop as loop_module
from edgespec_distill.training.training_loop import Training

PLANS = {
    "eagle": dataclasses.replace(PLAN, eagle=True, width=None, vocabulary=90, steps=9, rate=1e-3),
    "on policy": dataclasses.replace(PLAN, on_policy=True, steps=9, positions=1024),
    "block": dataclasses.replace(PLAN, block=3, width=None, loss="mixed", steps=9),
    "int8": dataclasses.replace(PLAN, eagle=True, width=None, steps=9, target_format="int8"),
}
ALL, SOME, NONE = 20.0, 100e-6, 0.0  # gigabytes for states


class Killed(BaseException):
    """No handler of the run sees it, as none sees SIGKILL."""


def killing(method, count):
    """`method`, but its call number `count`, from 0, kills the run before it does anything."""
    calls = iter(range(10_000))

    def killed(*arguments, **options):
        if next(calls) == count:
            raise Killed
        return method(*arguments, **options)

    return killed


def at(place, count):
    """Kills the run at this place; the state is on the disk after every step or only at first."""

    def apply(patch):
        every = 0.0 if "saved" in place else 1e9
        patch.setattr(loop_module, "SAVE_EVERY", every)
        patch.setattr(loop_module, "SAVE_PAUSE", every)
        if "step" in place:
            patch.setattr(Training, "_step", killing(Training._step, count))
        if "save" in place.split():
            patch.setattr(Training, "_save", killing(Training._save, count))
        if "block" in place:
            write = outputs_module.write_examples
            patch.setattr(outputs_module, "write_examples", killing(write, count))

    return apply


MOMENTS = [
    ("eagle", at("step, saved", 7), ALL),
    ("eagle", at("block", 3), SOME),
    ("on policy", at("step", 6), ALL),
    pytest.param("eagle", at("block", 3), ALL, marks=deep),
    pytest.param("eagle", at("step", 7), NONE, marks=deep),
    pytest.param("eagle", at("save", 1), ALL, marks=deep),
    pytest.param("on policy", at("step, saved", 6), ALL, marks=deep),
    pytest.param("on policy", at("save", 2), ALL, marks=deep),
    pytest.param("block", at("step, saved", 5), NONE, marks=deep),
    pytest.param("int8", at("block", 2), SOME, marks=deep),
    pytest.param("int8", at("step, saved", 5), NONE, marks=deep),
]


@pytest.fixture(scope="module")
def undisturbed(llama_folder, tmp_path_factory):
    """The bytes of the draft of a plan that ran without a pause, with all states stored."""
    found = {}

    def bytes_of(name, prompts):
        if name not in found:
            folder = tmp_path_factory.mktemp("whole") / "draft"
            distill(str(llama_folder), prompts, folder, PLANS[name])
            found[name] = (folder / "model.safetensors").read_bytes()
        return found[name]

    return bytes_of


@pytest.mark.parametrize(("name", "kill", "disk"), MOMENTS)
def test_a_killed_run_continues_with_the_same_result(
    name, kill, disk, undisturbed, llama_folder, prompts, tmp_path, monkeypatch
):
    monkeypatch.setattr(outputs_module, "BLOCK", 64)
    wanted, folder = undisturbed(name, prompts), tmp_path / "draft"
    plan = dataclasses.replace(PLANS[name], disk=disk)
    with monkeypatch.context() as patch:
        kill(patch)
        with pytest.raises(Killed):
            distill(str(llama_folder), prompts, folder, plan)
    distill(str(llama_folder), prompts, folder, plan)
    assert (folder / "model.safetensors").read_bytes() == wanted


@deep
@pytest.mark.parametrize("seconds", [0.3, 1.0, 2.5])
def test_a_process_that_gets_sigkill_loses_nothing(seconds, llama_folder, prompts, tmp_path):
    options = ["--eagle", "--layers", "1", "--vocabulary", "90", "--steps", "40", "-n", "12"]
    again = "from edgespec.cli.main import main; main()"
    command = [sys.executable, "-c", again, "distill", llama_folder, "--text", prompts, *options]
    found = []
    for name, kills in (("killed", True), ("whole", False)):
        run = [*map(str, command), "-o", str(tmp_path / name)]
        work = tmp_path / f".{name}.training"
        if kills:
            process = subprocess.Popen(run, stderr=subprocess.DEVNULL)
            while not work.exists():
                time.sleep(0.05)
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert work.exists()
        subprocess.run(run, check=True, capture_output=True)
        found.append((tmp_path / name / "model.safetensors").read_bytes())
    assert found[0] == found[1]

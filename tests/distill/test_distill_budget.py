"""Claim: a training keeps to its time and memory."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from distillation import PLAN
from edgespec.errors import EdgespecError
from edgespec_distill import distillation as run_module
from edgespec_distill.data import target_outputs as outputs_module
from edgespec_distill.data.target_outputs import TargetOutputs
from edgespec_distill.distill_draft import distill
from edgespec_distill.training.budget import Budget


def test_a_budget_of_steps_ends_and_its_rate_falls_to_zero():
    budget = Budget(minutes=None, steps=1000)
    rates = []
    for budget.steps in range(1001):
        rates.append(budget.rate(1.0))
    assert rates[0] == 0.01
    assert rates[200:500] == [1.0] * 300
    assert rates[-1] == 0
    assert budget.fraction == 1


@pytest.mark.parametrize("on_policy", [False, True])
def test_the_minutes_include_all_generation_of_the_target(
    on_policy, llama_folder, prompts, tmp_path, monkeypatch
):
    """The target generates twice after the held-out prompts, and twice after the others."""
    clock, asked = [0.0], []
    generate = TargetOutputs._generate

    def slow(*arguments):
        clock[0] += 60
        generate(*arguments)

    def training(*_, minutes, **__):
        asked.append(minutes)
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(TargetOutputs, "_generate", slow)
    monkeypatch.setattr(run_module, "Training", training)
    plan = dataclasses.replace(PLAN, steps=None, minutes=20.0, on_policy=on_policy)
    with pytest.raises(KeyboardInterrupt):
        distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    assert asked == [18.0 if on_policy else 16.0]


def test_missing_memory_is_one_line(llama_folder, prompts, tmp_path, monkeypatch):
    def greedy(*_):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes")

    monkeypatch.setattr(run_module.Training, "_step", greedy)
    with pytest.raises(EdgespecError, match="not enough memory"):
        distill(str(llama_folder), prompts, tmp_path / "d", PLAN)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc")
def test_freed_memory_stays_in_the_process_until_it_is_returned_or_too_much():
    """Memory that each step returns to the system costs page faults in the next."""
    script = """
from edgespec_distill.training.memory import keep_freed_memory, return_freed_memory, trim_above
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
pages = lambda: int(open("/proc/self/statm").read().split()[1])
def kept():
    before = pages()
    piece = libc.malloc(2**28)
    ctypes.memset(ctypes.c_void_p(piece), 1, 2**28)
    libc.free(piece)
    return (pages() - before) * 4096
usual = kept()
keep_freed_memory()
within = kept()
before = pages()
trim_above(before * 4096)  # files apart, it has less
still = before - pages()
trim_above(2**28)
print(usual, within, still, (before - pages()) * 4096)
within = kept()
before = pages()
return_freed_memory()
print((before - pages()) * 4096)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    usual, kept, still, trimmed, returned = map(int, ran.stdout.split())
    assert usual < 2**27 < min(kept, trimmed, returned)
    assert still < 2**20

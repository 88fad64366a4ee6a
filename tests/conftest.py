"""Pairs that many tests share; each is exported once, whatever the number of processes."""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path

import hypothesis
import pytest
from filelock import FileLock

import edgespec
from chat_templates import DEFAULT_SYSTEM, MARKED_CALLS
from checkpoints import character_tokenizer, write_noisy, write_small_llama
from depth import DEEP, is_left_out
from edgespec_export.export_pair import export_pair
from shipped_models import MODELS

pytest_plugins = ["distill_fixtures"]

# JAX compiles for its tests without optimization: compiling is most of their time.
FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"

# A developer's own settings are no part of a test.
os.environ["EDGESPEC_CONFIG"] = os.devnull

# How long an example takes says nothing on a shared machine.
hypothesis.settings.register_profile("edgespec", deadline=None, max_examples=100 if DEEP else 30)
hypothesis.settings.load_profile("edgespec")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay: the garbage collector need not look through them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A case that is named runs."""
    if any("[" in argument for argument in config.args):
        return
    left_out = [item for item in items if is_left_out(item)]
    if left_out:
        items[:] = [item for item in items if not is_left_out(item)]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def made_once(request, tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Gives a folder that is made once for all processes of a session: each has a copy."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if hasattr(request.config, "workerinput") else own

    def copy_of(name: str, make: Callable[[Path], object]) -> Path:
        whole = shared / f"{name}-whole"
        with FileLock(f"{whole}.lock"):
            if not whole.exists():
                make(shared / f"{name}-begun")
                (shared / f"{name}-begun").rename(whole)
        return Path(shutil.copytree(whole, own / name))

    return copy_of


@pytest.fixture(scope="session")
def pair_folder(made_once) -> Path:
    """The shipped English-German pair, exported. Read only: copy it to change it."""

    def make(folder: Path) -> None:
        export_pair(str(MODELS / "en-de-target"), str(MODELS / "en-de-draft"), folder, threads=1)
        edgespec.load(folder)  # so that there is a result for the usual number of threads too

    return made_once("en-de-pair", make)


@pytest.fixture(scope="session")
def pair(pair_folder) -> edgespec.Pair:
    """The shipped pair, loaded."""
    return edgespec.load(pair_folder, threads=1)


@pytest.fixture(scope="session")
def tiny_checkpoints(tmp_path_factory) -> tuple[Path, Path]:
    """A random Llama over bytes, and a draft that often agrees with it: milliseconds to export."""
    folder = tmp_path_factory.mktemp("tiny")
    target = write_small_llama(folder / "target", max_position_embeddings=96)
    return target, write_noisy(target, folder / "draft", noise=0.05)


@pytest.fixture(scope="session")
def tiny_folder(tiny_checkpoints, tmp_path_factory) -> Path:
    """The tiny pair, exported. Read only: copy it to change it."""
    target, draft = tiny_checkpoints
    folder = tmp_path_factory.mktemp("tiny") / "pair"
    export_pair(str(target), str(draft), folder, threads=1)
    edgespec.load(folder)  # so that there is a result for the usual number of threads too
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder) -> edgespec.Pair:
    """The tiny pair, loaded. Its texts are noise and end after 96 positions."""
    return edgespec.load(tiny_folder, threads=1)


@pytest.fixture
def own_pair(tiny_folder, tmp_path) -> Path:
    """A copy of the tiny pair, to be damaged."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "pair"))


@pytest.fixture
def own_checkpoints(tiny_checkpoints, tmp_path) -> tuple[Path, Path]:
    """Copies of the tiny checkpoints, to be damaged."""
    target, draft = (shutil.copytree(path, tmp_path / path.name) for path in tiny_checkpoints)
    return Path(target), Path(draft)


@pytest.fixture(scope="session")
def chat_folder(made_once) -> Path:
    """A random chat model over characters, with a draft; its texts are noise. Read only."""

    def make(folder: Path) -> None:
        target = write_small_llama(
            folder / "target", character_tokenizer(272), max_position_embeddings=1024
        )
        (target / "tokenizer_config.json").write_text(json.dumps({"chat_template": DEFAULT_SYSTEM}))
        draft = write_noisy(target, folder / "draft", noise=0.05)
        export_pair(str(target), str(draft), folder / "pair", target_formats=["fp32", "int8"])
        edgespec.load(folder / "pair", threads=1)

    return made_once("chat", make) / "pair"


@pytest.fixture(scope="session")
def tool_folder(made_once) -> Path:
    """A random chat model over bytes, whose template knows tools. Read only."""

    def make(folder: Path) -> None:
        target = write_small_llama(folder / "target", max_position_embeddings=2048)
        (target / "tokenizer_config.json").write_text(json.dumps({"chat_template": MARKED_CALLS}))
        draft = write_noisy(target, folder / "draft", noise=0.05)
        export_pair(str(target), str(draft), folder / "pair", threads=1)

    return made_once("tools", make) / "pair"


@pytest.fixture(scope="session")
def tool_pair(tool_folder) -> edgespec.Pair:
    """The pair of `tool_folder`."""
    return edgespec.load(tool_folder, threads=1)

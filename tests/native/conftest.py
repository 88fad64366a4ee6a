"""libedgespec, if `make native` has built it."""

from __future__ import annotations

import ctypes
import shutil

import pytest

import edgespec
import shared_encoder_checkpoints
from eagle_checkpoints import write_eagle, write_target
from edgespec_export.export_pair import export_pair
from looking_large import look_large
from native_library import HOOKS, LIBRARY, NativeModel, opened
from whisper_checkpoints import write_whisper


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """Skips these tests where there is no library."""
    if not (LIBRARY.exists() and HOOKS.exists()):
        pytest.skip("libedgespec is not built: make native")


@pytest.fixture(scope="session")
def hooks(built) -> ctypes.CDLL:
    """The library with the functions that only tests call."""
    return opened(HOOKS)


@pytest.fixture(scope="session")
def native_tiny(built, tiny_folder) -> NativeModel:
    """The tiny pair, loaded."""
    return NativeModel(tiny_folder, threads=1)


@pytest.fixture(scope="session")
def large_folder(tiny_folder, tmp_path_factory):
    """The tiny pair with a target that looks large, so that drafts are guessed to pay."""
    folder = shutil.copytree(tiny_folder, tmp_path_factory.mktemp("large") / "pair")
    look_large(folder)
    return folder


@pytest.fixture(scope="session")
def eagle_folder(tmp_path_factory):
    """A target and its untrained EAGLE head, which has 120 of its 272 tokens."""
    folder = tmp_path_factory.mktemp("eagle")
    target = write_target(folder / "target", "llama")
    write_eagle(target, folder / "draft", tokens=120)
    export_pair(str(target), str(folder / "draft"), folder / "pair", threads=1)
    return folder / "pair"


@pytest.fixture(scope="session")
def t5_eagle_folder(tmp_path_factory):
    """A T5 and its untrained EAGLE head, which has 120 of its 272 tokens."""
    folder = tmp_path_factory.mktemp("t5-eagle")
    target = shared_encoder_checkpoints.write_target(folder / "target")
    write_eagle(target, folder / "draft", tokens=120)
    export_pair(str(target), str(folder / "draft"), folder / "pair", threads=1)
    return folder / "pair"


@pytest.fixture(scope="session")
def int8_folder(tiny_checkpoints, tmp_path_factory):
    """The tiny pair in int8, whose texts may share calls."""
    folder = tmp_path_factory.mktemp("int8") / "pair"
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"]}
    export_pair(*map(str, tiny_checkpoints), folder, threads=1, **formats)
    return folder


@pytest.fixture(scope="session")
def int8_pair(int8_folder) -> edgespec.Pair:
    """The same, loaded."""
    return edgespec.load(int8_folder, threads=1)


@pytest.fixture(scope="session")
def whisper_folder(tmp_path_factory):
    """A tiny Whisper and its draft in int8, whose windows are 2 s."""
    folder = tmp_path_factory.mktemp("whisper")
    target, draft = write_whisper(folder / "target"), write_whisper(folder / "draft", noise=0.03)
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"]}
    export_pair(str(target), str(draft), folder / "pair", threads=1, **formats)
    return folder / "pair"

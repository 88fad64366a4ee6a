"""Claim: the library chooses an instruction set that the processor has, or one line says why not.

Each case runs in a process of its own, because the choice is made when the library is loaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH, _installed, installed_kernels
from edgespec.pair.opening.runtime import machine_of
from edgespec_export.export_pair import export_pair

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")

FASTEST_FIRST = ("amx", "avx512bf16", "avx512", "avxvnni", "avx2", "i8mm", "neon")
SCORE = """
import sys
from pathlib import Path
import numpy as np
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import open_model
folder, variant, out = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
model = open_model(folder, read_manifest(folder).target, variant, device=Device(1))
np.save(out, model.score(list(b"The same bits, whatever the processor has.")))
"""


def edgespec(*arguments: object, switch: str, **changes: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgespec", *map(str, arguments)]
    environment = {**os.environ, SWITCH: switch, **changes}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def inspected(tiny_folder) -> dict[str, subprocess.CompletedProcess[str]]:
    """What a process says that shall use an instruction set."""
    return {name: edgespec("inspect", tiny_folder, switch=name) for name in FASTEST_FIRST}


@pytest.fixture(scope="module")
def targets(inspected) -> list[str]:
    """The instruction sets that this processor has."""
    return [name for name, run in inspected.items() if run.returncode == 0]


def test_the_fastest_instruction_set_is_used(tiny_folder, targets):
    for switch in ("1", ""):
        assert f"({targets[0]})" in edgespec("inspect", tiny_folder, switch=switch).stdout


def test_an_instruction_set_can_be_forced(tiny_folder, inspected, targets):
    for target in targets:
        assert f" ({target})\n" in inspected[target].stdout
        run = edgespec("generate", tiny_folder, "Hello", "--stats", switch=target)
        assert f" ({target})\n" in run.stderr
        assert f"({target})" in edgespec("providers", switch=target).stdout


def test_kernels_can_be_switched_off(tiny_folder):
    assert "kernels: switched off" in edgespec("inspect", tiny_folder, switch="0").stdout


def test_an_instruction_set_that_is_missing_is_one_line(tiny_folder, inspected, targets):
    runs = [run for name, run in inspected.items() if name not in targets]
    runs.append(edgespec("generate", tiny_folder, "Hello", switch="nonsense"))
    runs.append(edgespec("inspect", tiny_folder, switch="AVX2"))
    for run in runs:
        assert run.returncode == 2
        assert run.stderr.count("\n") == 1
        assert f"{SWITCH} is" in run.stderr
        assert targets[-1] in run.stderr  # what it may be


def test_the_record_of_a_machine_does_not_depend_on_the_instruction_set(targets, monkeypatch):
    """All have the same bits, so a result of one is that of all."""
    records = set()
    for target in targets:
        monkeypatch.setenv(SWITCH, target)
        records.add(machine_of(Device(1)).digest)
    assert len(records) == 1


@pytest.mark.parametrize("format_", ["int8", "fp16"])
def test_a_model_has_the_same_logits_on_every_instruction_set(
    tiny_checkpoints, targets, tmp_path, format_
):
    target, draft = map(str, tiny_checkpoints)
    export_pair(target, draft, tmp_path / "pair", target_formats=[format_], measure=False)
    assert format_ in read_manifest(tmp_path / "pair").target.variants
    logits = []
    for name in targets:
        out = tmp_path / f"{name}.npy"
        command = [sys.executable, "-c", SCORE, tmp_path / "pair", format_, out]
        subprocess.run(command, env={**os.environ, SWITCH: name}, check=True)
        logits.append(np.load(out))
    assert len(logits[0]) > 0
    for others in logits[1:]:
        np.testing.assert_array_equal(others.view(np.uint32), logits[0].view(np.uint32))


@pytest.fixture
def damaged(tmp_path):
    """A copy of the installed package, to be damaged, and its folder."""
    package = installed_kernels().library.parent
    for folder in (package, *package.parent.glob("edgespec_kernels-*.dist-info")):
        shutil.copytree(folder, tmp_path / folder.name)
    return tmp_path / package.name


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_to_a_page(path: Path) -> None:
    os.truncate(path, 1000)


def changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = os.urandom(2000)
    path.write_bytes(content)


ENTRY, FIRST, SAMPLING = (
    "libedgespec_kernels.so",
    "libedgespec_kernels_{target}.so",
    "_sampling.abi3.so",
)


@one_in(2)
@pytest.mark.parametrize(
    ("library", "damage", "recorded"),
    [
        *((library, cut, recorded) for library in (ENTRY, FIRST, SAMPLING) for recorded in (1, 0)),
        (FIRST, cut_to_a_page, False),
        (FIRST, changed, True),
        (FIRST, Path.unlink, True),
    ],
)
def test_a_damaged_library_is_not_used(tiny_folder, damaged, targets, library, damage, recorded):
    """A copy without the record of its installation is tried by another process."""
    path = damaged / library.format(target=targets[0])
    damage(path)
    if not recorded:
        for record in damaged.parent.glob("*.dist-info"):
            shutil.rmtree(record)
    run = edgespec("inspect", tiny_folder, switch="1", PYTHONPATH=paths(damaged))
    assert run.returncode == 0
    assert run.stderr.count("\n") == 1
    assert "edgespec-kernels are not used (" in run.stderr
    assert (path.name if recorded else "code -") in run.stderr
    assert "install them again" in run.stderr
    assert "kernels: none" in run.stdout


def test_a_copy_without_the_record_of_its_installation_is_used(tiny_folder, damaged, targets):
    for record in damaged.parent.glob("*.dist-info"):
        shutil.rmtree(record)
    run = edgespec("inspect", tiny_folder, switch="1", PYTHONPATH=paths(damaged))
    assert run.stderr == ""
    assert f"({targets[0]})" in run.stdout


INITS = {
    "it raises": "raise RuntimeError('nothing\\nworks')",
    "it is no Python": "def",
    "it lacks names": "__version__ = '0.12.0'",
    "it imports what is not there": "import edgespec_nosuch",
    "no version": "__version__ = 'x.y'",
    "a version that ends in none": "__version__ = '0.12.0-nightly?'",
    "no text": "__version__ = None",
}


@pytest.mark.parametrize("content", INITS.values(), ids=INITS)
def test_a_damaged_package_is_one_line(content, tmp_path, monkeypatch, caplog):
    imported_from(tmp_path, content, monkeypatch)
    assert _installed.__wrapped__(None) is None
    (record,) = caplog.records
    assert record.getMessage().startswith("edgespec-kernels are not used (")
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize(
    ("version", "is_used"),
    [
        *dict.fromkeys(
            ["0.12", "0.12.0", "0.12rc1", "0.13.dev3", "1.0rc1", "1.0a2.post3"], True
        ).items(),
        *dict.fromkeys(["v0.12", "0.13+local.7", "00.12", "1"], True).items(),
        *dict.fromkeys(["0.11.99", "0.11rc1", "0.8", "0.1", "0"], False).items(),
    ],
)
def test_any_version_is_understood(version, is_used, tmp_path, monkeypatch, caplog):
    """Also one before a release, which has what the release has."""
    real = Path(installed_kernels().library.parent / "__init__.py").read_text()
    imported_from(tmp_path, f"{real}\n__version__ = {version!r}", monkeypatch)
    monkeypatch.setattr("edgespec.device.kernels.check_libraries", lambda _: None)
    assert (_installed.__wrapped__(None) is not None) == is_used, caplog.text
    assert is_used or "is older than 0.12" in caplog.text


def imported_from(folder: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets edgespec import a package with this content, beside the installed libraries."""
    package = folder / "edgespec_kernels"
    package.mkdir()
    for path in installed_kernels().library.parent.glob("*.so"):
        (package / path.name).symlink_to(path)
    (package / "__init__.py").write_text(content)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "edgespec_kernels", raising=False)


def paths(package: Path) -> str:
    return os.pathsep.join([str(package.parent), *filter(None, sys.path)])

"""Claim: what is published is small, typed, says one version, and imports only what it needs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

import edgespec
import edgespec_distill
import edgespec_export
import edgespec_jax
import edgespec_runtimes

ROOT = Path(__file__).parents[2]
PACKAGES = [edgespec, edgespec_distill, edgespec_export, edgespec_jax, edgespec_runtimes]
HEAVY = ["click", "jax", "onnx", "onnx_ir", "onnxruntime", "tokenizers", "torch", "transformers"]


def imported_by(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after running `code`."""
    code += "\nimport sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return {module.partition(".")[0] for module in run.stdout.split()}


# --- imports -------------------------------------------------------------------------------------


def test_import_edgespec_imports_nothing_heavy():
    modules = imported_by("import edgespec")
    assert not modules.intersection([*HEAVY, "numpy"])
    assert not modules.intersection(["edgespec_export", "edgespec_runtimes"])


def test_generating_needs_no_exporter(tiny_folder):
    modules = imported_by(
        f"import edgespec\nedgespec.load({str(tiny_folder)!r}, threads=1).generate('abc')"
    )
    assert "onnxruntime" in modules
    assert not modules.intersection(["edgespec_export", "onnx", "onnx_ir", "torch", "click"])


def imports_of(module_file: Path) -> set[str]:
    """The top-level packages that a file names in its import statements, anywhere in it."""
    nodes = list(ast.walk(parsed(module_file)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_exporter_and_runtimes_know_the_core_and_not_each_other():
    switches_reports_off = ROOT / "export/edgespec_export/__init__.py"  # nothing else of it is used
    for file in {*(ROOT / "export").rglob("*.py")} - {switches_reports_off}:
        assert "edgespec_runtimes" not in imports_of(file), file
    importing = {
        file.name
        for file in (ROOT / "runtimes").rglob("*.py")
        if "edgespec_export" in imports_of(file)
    }
    assert importing == {"jax_checkpoint.py"}  # reads checkpoints, and computes nothing


def importing(package: str) -> set[str]:
    """The files of edgespec that import another package of the project."""
    files = (ROOT / "edgespec").rglob("*.py")
    found = [file for file in files if package in imports_of(file)]
    return {file.relative_to(ROOT / "edgespec").as_posix() for file in found}


def test_only_names_of_models_and_the_command_line_import_the_exporter():
    found = {file.partition("/")[0] for file in importing("edgespec_export")}
    assert found == {"cli", "library"}


def test_the_runtimes_are_imported_in_one_file():
    for_a_type = {"measure/tune_result.py"}
    assert importing("edgespec_runtimes") - for_a_type == {"pair/opening/runtime.py"}


# --- names ---------------------------------------------------------------------------------------


def test_all_is_sorted_and_complete():
    named = imported_for_type_checkers(Path(edgespec.__file__))
    assert edgespec.__all__ == sorted(edgespec.__all__)
    assert set(edgespec.__all__) == named
    for name in edgespec.__all__:
        assert getattr(edgespec, name).__module__.startswith("edgespec.")
    with pytest.raises(AttributeError, match="nosuch"):
        edgespec.nosuch  # noqa: B018


def imported_for_type_checkers(file: Path) -> set[str]:
    """The names that a file imports under TYPE_CHECKING from this package."""
    guarded = [node for node in parsed(file).body if isinstance(node, ast.If)]
    nodes = [node for block in guarded for node in block.body]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    own = [node for node in imports if (node.module or "").startswith("edgespec.")]
    return {alias.name for node in own for alias in node.names}


MODULES = sorted(
    path
    for package in PACKAGES
    for path in Path(package.__path__[0]).rglob("*.py")
    if not path.name.startswith("_")
)


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def defined_in(tree: ast.Module) -> dict[str, ast.AST]:
    """What a module binds at its top level."""
    names: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.If):
            names |= defined_in(ast.Module(node.body, []))
        elif isinstance(node, ast.Assign):
            names |= {name.id: node for name in node.targets if isinstance(name, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name: node for alias in node.names}
    return names


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.stem)
def test_a_module_says_what_it_is_and_what_others_may_use(file):
    tree = parsed(file)
    assert ast.get_docstring(tree)
    names = defined_in(tree)
    listed = ast.literal_eval(names["__all__"].value)
    assert len(set(listed)) == len(listed)
    assert set(listed) <= names.keys()
    assert not [name for name in listed if name.startswith("_")]


# --- the version ---------------------------------------------------------------------------------


def test_the_changelog_begins_with_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (first, *_) = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert first in (edgespec.__version__, "Unreleased")
    assert f"## [{edgespec.__version__}]" in changelog


# --- the wheels ----------------------------------------------------------------------------------

ON_A_DEVICE = [edgespec, edgespec_runtimes]
WHERE_IT_IS_EXPORTED = [edgespec_distill, edgespec_export]


def built(project: Path, folder: Path) -> zipfile.ZipFile:
    hatchling = pytest.importorskip("hatchling.builders.wheel")
    (path,) = hatchling.WheelBuilder(str(project)).build(
        directory=str(folder), versions=["standard"]
    )
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> list[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("dist")
    return [built(project, folder) for project in (ROOT, ROOT / "export")]


@pytest.fixture(scope="module")
def wheel(wheels) -> zipfile.ZipFile:
    return wheels[0]


def metadata_of(wheel: zipfile.ZipFile) -> Message:
    (folder,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    return HeaderParser().parsestr(wheel.read(f"{folder}/METADATA").decode())


def test_a_device_gets_what_runs_pairs_and_nothing_else(wheels):
    for wheel, packages in zip(wheels, [ON_A_DEVICE, WHERE_IT_IS_EXPORTED], strict=True):
        expected = {
            f"{package.__name__}/{path.relative_to(package.__path__[0]).as_posix()}"
            for package in packages
            for path in Path(package.__path__[0]).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected


def test_the_wheels_are_small(wheels):
    device, exporter = (sum(entry.compress_size for entry in w.infolist()) for w in wheels)
    assert device < 600_000
    assert exporter < 545_000


def test_the_wheels_are_typed(wheels):
    names = {name for wheel in wheels for name in wheel.namelist()}
    for package in ON_A_DEVICE + WHERE_IT_IS_EXPORTED:
        assert f"{package.__name__}/py.typed" in names


def test_the_wheel_says_its_version_licence_and_command(wheel):
    metadata = metadata_of(wheel)
    assert metadata["Version"] == edgespec.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    folder = f"edgespec-{edgespec.__version__}.dist-info"
    assert f"{folder}/licenses/LICENSE" in wheel.namelist()
    assert "edgespec = edgespec.__main__:main" in wheel.read(f"{folder}/entry_points.txt").decode()


def test_the_exporter_goes_with_its_own_version_of_edgespec(wheels):
    metadata = metadata_of(wheels[1])
    assert metadata["Version"] == edgespec.__version__
    (needed, *extras) = metadata.get_all("Requires-Dist")
    assert needed == f"edgespec[export]=={edgespec.__version__}"
    assert {line.partition(";")[0] for line in extras} == {"edgespec[distill]", "edgespec[torch]"}


def test_a_device_installs_no_exporter(wheel):
    lines = metadata_of(wheel).get_all("Requires-Dist", [])
    required = [line for line in lines if "extra ==" not in line]
    names = {re.match(r"[\w.-]+", line).group() for line in required}
    assert names == {"click", "numpy", "onnxruntime", "tokenizers"}


# --- rooms ---------------------------------------------------------------------------------------

LARGEST_ROOM = 16  # modules; "about 15"


def test_no_two_modules_have_one_name():
    names = [file.stem for file in MODULES]
    assert not {name for name in names if names.count(name) > 1}
    plurals = {name for name in names if f"{name}s" in names}
    assert not plurals, "modules whose names differ by a plural"


def test_no_room_is_too_large():
    rooms = [file.parent for file in MODULES]
    assert {room for room in rooms if rooms.count(room) > LARGEST_ROOM} == set()

"""Claim: plug-ins are found by what they are, and none can end the process or hide an error."""

from __future__ import annotations

import json
import sys

import onnxruntime as ort
import pytest

from depth import one_in
from edgespec_runtimes.ort.providing import plugins

MODULE = """
import os, pathlib
(pathlib.Path(__file__).parent / "imported").touch()
def get_library_path():
    {body}
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, the only ones there are; makes one."""
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(tmp_path)
    only = lambda: plugins.Distribution.discover(path=[str(tmp_path)])  # noqa: E731
    monkeypatch.setattr(plugins, "distributions", only)

    def make(name, source, needs=""):
        module = name.replace("-", "_")
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").write_text(source)
        info = tmp_path / f"{module}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n{needs}"
        )
        (info / "RECORD").write_text(f"{module}/__init__.py,,\n")
        monkeypatch.delitem(sys.modules, module, raising=False)
        return tmp_path / module

    return make


def loaded():
    return plugins.load_plugins.__wrapped__()


NEEDS = "Requires-Dist: onnxruntime>=1.24\n"


@one_in(2)
@pytest.mark.parametrize(
    ("name", "needs"),
    [("onnxruntime-qnn", ""), ("onnxruntime-ep-thing", ""), ("x-ep-y", ""), ("chips", NEEDS)],
)
def test_a_package_of_onnx_runtime_with_a_library_is_a_plug_in(site, name, needs):
    site(name, MODULE.format(body="return '/no/such/library.so'"), needs)
    (line,) = loaded().unusable
    assert line.startswith(f"{name} cannot be used (")
    assert "\n" not in line


@pytest.mark.parametrize(
    ("name", "source", "needs"),
    [
        ("onnxruntime-tools", MODULE.replace("get_library_path", "other"), ""),
        ("compiler", MODULE, ""),  # it has such a function, and nothing to do with ONNX Runtime
        ("onnxruntime-broken", "def (", ""),
    ],
)
def test_other_packages_are_not_imported(site, name, source, needs):
    folder = site(name, source.replace("{body}", "return 1"), needs)
    assert loaded() == ({}, [])
    assert not (folder / "imported").exists()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os.abort()", "loading it ends the process with -6"),
        ("os._exit(7)", "loading it ends the process with 7"),
        ("raise ValueError('two\\nlines')", "two"),
        ("raise SystemExit('it exits')", "it exits"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_one_line_and_this_process_goes_on(site, body, reason):
    site("onnxruntime-qnn", MODULE.format(body=body))
    assert loaded() == ({}, [f"onnxruntime-qnn cannot be used ({reason})"])


def test_a_plug_in_that_loaded_is_not_tried_again_until_it_or_the_runtime_changes(
    site, tmp_path, monkeypatch
):
    plugin = pytest.importorskip("nxrt_ep_cpu", reason="this system has no such plug-in")
    site("onnxruntime-qnn", MODULE.format(body=f"return {str(plugin.get_library_path())!r}"))
    monkeypatch.setattr(ort, "register_execution_provider_library", lambda *_: None)
    tried = []
    real = plugins.subprocess.run
    monkeypatch.setattr(plugins.subprocess, "run", lambda *a, **k: tried.append(a) or real(*a, **k))
    for _ in range(2):
        assert loaded().versions == {str(plugin.get_library_path()): "1.2"}
    assert len(tried) == 1
    assert len(json.loads((tmp_path / "home" / "plugins.json").read_text())) == 1
    monkeypatch.setattr(ort, "__version__", "9.9")
    loaded()
    assert len(tried) == 2
    (tmp_path / "home" / "plugins.json").write_text("[")
    loaded()
    assert len(tried) == 3


def test_a_library_that_is_gone_at_the_next_start_is_one_line(site, tmp_path, monkeypatch):
    plugin = pytest.importorskip("nxrt_ep_cpu", reason="this system has no such plug-in")
    library = tmp_path / "library.so"
    site("onnxruntime-qnn", MODULE.format(body=f"return {str(library)!r}"))
    library.symlink_to(plugin.get_library_path())
    with monkeypatch.context() as patch:
        patch.setattr(ort, "register_execution_provider_library", lambda *_: None)
        assert loaded().unusable == []
    library.unlink()
    (line,) = loaded().unusable
    assert line.startswith("onnxruntime-qnn cannot be used (")
    assert "\n" not in line

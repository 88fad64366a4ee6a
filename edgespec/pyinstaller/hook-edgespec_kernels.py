"""The kernels: libraries beside the package, and its metadata, which say how long they are."""

from PyInstaller.utils.hooks import collect_dynamic_libs, copy_metadata

__all__ = ["binaries", "datas"]

binaries = collect_dynamic_libs("edgespec_kernels", search_patterns=["*.so", "*.dylib", "*.dll"])
datas = copy_metadata("edgespec-kernels")

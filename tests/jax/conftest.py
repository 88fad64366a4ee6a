"""JAX compiles for its tests without optimization: compiling is most of their time."""

from __future__ import annotations

import os

FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"

"""Runtimes for exported models: each implements `edgespec.core.model.Model`."""

import os

# ONNX Runtime 1.32 reports its use to Microsoft, keeps an identifier and a database for that in the
# user's home, and writes a line where it cannot. With "0" it does.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

"""llama.cpp's server with n-gram lookup, to audit: `python … MODEL.gguf PORT [plain]`.

In an environment of its own, with the package xllamacpp. Prints where it listens; ends with its
standard input. The lookup is set to draft often: after any two tokens that have occurred before.
"""

from __future__ import annotations

import sys

import xllamacpp
from xllamacpp import common_speculative_type

CONTEXT, SLOTS = 4096, 4


def main(model: str, port: int, plain: bool) -> None:
    """Serves until standard input ends."""
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.hostnames, settings.port = ["127.0.0.1"], port
    settings.n_ctx, settings.n_parallel = CONTEXT, SLOTS
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    if not plain:
        settings.speculative.types = [common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        settings.speculative.ngram_simple.size_n = 2
        settings.speculative.ngram_simple.size_m = 8
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["plain"])

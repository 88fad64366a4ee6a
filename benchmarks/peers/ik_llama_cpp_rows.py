"""How far ik_llama.cpp's distributions are apart when a text is read in one call and in steps:
`python … MODEL.gguf`, in the environment of audited_ik_llama_cpp.py.

A text of one prompt is made token by token. Then its beginnings are read in one call each, and the
distribution of the next token is compared with the one of the step.
"""

from __future__ import annotations

import sys

import numpy as np
from ik_llama_cpp import _ctypes_api as c
from ik_llama_cpp._internals import make_batch_range
from ik_llama_cpp.llama import IkLlama
from numpy.typing import NDArray

PROMPT, TOKENS = "The history of the steam engine begins with", 40


def distribution(llama: IkLlama, tokens: list[int], position: int) -> NDArray[np.float32]:
    """Of the token after a call of these."""
    batch = make_batch_range(tokens, pos_start=position)
    if llama._context.decode(batch):
        raise RuntimeError("the call failed")
    c.llama_batch_free(batch)
    logits = np.ctypeslib.as_array(llama._context.get_logits(-1), (llama._model.n_vocab,))
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def main(model: str) -> None:
    """Prints the rows of a call, and the total variation."""
    llama = IkLlama(model, n_ctx=512, n_threads=1)
    text = llama.tokenize(PROMPT)
    steps = {len(text): distribution(llama, text, 0)}
    while len(text) < TOKENS:
        text.append(int(steps[len(text)].argmax()))
        steps[len(text)] = distribution(llama, text[-1:], len(text) - 1)
    for rows, step in steps.items():
        llama._context.kv_cache_clear()
        whole = distribution(llama, text[:rows], 0)
        print(f"{rows} rows: total variation {abs(whole - step).sum() / 2:.4f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""Greedy tokens of llama.cpp, and the log-probabilities of its most probable ones.

    python llama_cpp_tokens.py MODEL.gguf REQUEST.json ANSWER.json

REQUEST has `prompt` (token ids), `tokens` (how many to generate) and `top`. ANSWER has `tokens`,
and `top`: for each of them log-probabilities by token id, before any sampling. xllamacpp of PyPI
has llama.cpp compiled in. Keys and values are float32, so that nothing but the model is compared.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def generated(model: str, prompt: list[int], tokens: int, top: int) -> dict[str, Any]:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = len(prompt) + tokens + 1
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.warmup = False
    request = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "logprobs": top}
    answer = xllamacpp.Server(params).handle_completions(
        {**request, "ignore_eos": True, "cache_prompt": False}
    )
    answer = json.loads(answer) if isinstance(answer, str) else answer
    steps = answer["choices"][0]["logprobs"]["content"]
    return {
        "tokens": [step["id"] for step in steps],
        "top": [{one["id"]: one["logprob"] for one in step["top_logprobs"]} for step in steps],
    }


if __name__ == "__main__":
    request = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    Path(sys.argv[3]).write_text(json.dumps(generated(sys.argv[1], **request)), encoding="utf-8")

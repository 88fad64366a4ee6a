// transformers.js behind the messages of compare.mjs: load a model, and generate greedily.

import { AutoModelForCausalLM, AutoTokenizer, env, Tensor } from "@huggingface/transformers";

Object.assign(env, {
  allowRemoteModels: false,
  allowLocalModels: true,
  localModelPath: "/models/",
  useBrowserCache: false,
  useWasmCache: false,
});
Object.assign(env.backends.onnx.wasm, {
  numThreads: 1,
  wasmPaths: new URL("/ort-transformersjs/", self.location.href).href,
});

let model = null;
let tokenizer = null;

const actions = {
  async load({ folder }) {
    tokenizer = await AutoTokenizer.from_pretrained(folder);
    model = await AutoModelForCausalLM.from_pretrained(folder, { dtype: "q8", device: "wasm" });
    return { runtime: env.backends.onnx.versions?.web ?? "unknown" };
  },
  async encode({ text }) {
    return { tokens: tokenizer.encode(text, { add_special_tokens: false }) };
  },
  async generate({ prompt, maxNewTokens }) {
    const times = [];
    let isPrompt = true; // it is put first
    const streamer = {
      put([tokens]) {
        if (isPrompt) isPrompt = false;
        else times.push([Number(tokens.at(-1)), performance.now()]);
      },
      end() {},
    };
    const shape = [1, prompt.length];
    const inputs = {
      input_ids: new Tensor("int64", BigInt64Array.from(prompt, BigInt), shape),
      attention_mask: new Tensor("int64", new BigInt64Array(prompt.length).fill(1n), shape),
    };
    await model.generate({ ...inputs, max_new_tokens: maxNewTokens, do_sample: false, eos_token_id: -1, streamer });
    return { times };
  },
};

self.onmessage = async ({ data: { action, ...given } }) => {
  try {
    self.postMessage({ ...(await actions[action](given)) });
  } catch (error) {
    self.postMessage({ failed: error.stack });
  }
};

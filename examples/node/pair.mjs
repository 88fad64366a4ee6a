// An exported pair: the manifest and its two models, as in docs/reference/folder-format.md.

import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { isAbsolute, join, normalize } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import { InferenceSession, Tensor } from "onnxruntime-node";

// With flash attention, ONNX Runtime gives a position other bits in other calls on ARM64. It reads
// the variable when a session is made.
if (process.arch === "arm64") process.env.ORT_GQA_DISABLE_FLASH_ATTENTION ??= "1";

export async function openPair(folder, { targetFormat, draftFormat, threads = 0 } = {}) {
  const manifest = readJson(join(folder, "edgespec.json"));
  if (manifest.version !== 2) throw new Error(`format version ${manifest.version}; this reads 2`);
  checkFiles(folder, manifest.files);
  const [name, variant] = variantOf(manifest.target, targetFormat);
  const invariance = variant.row_invariance;
  const options = { threads, minRows: invariance?.min_rows ?? 2 };
  const target = await openModel(folder, manifest.target, name, options);
  const draft =
    manifest.draft &&
    (await openModel(folder, manifest.draft, variantOf(manifest.draft, draftFormat)[0], {
      threads,
      target,
    }));
  return {
    manifest,
    // Without this option the library removes some spaces from a model's text.
    tokenizer: new Tokenizer(readJson(join(folder, "tokenizer.json")), {
      clean_up_tokenization_spaces: false,
    }),
    target,
    draft,
    vocabulary: readVocabulary(folder, manifest),
    // How many drafted tokens this target verifies exactly, as measured on the exporter's machine.
    maxGamma: invariance?.is_row_invariant ? invariance.max_rows - 1 : 0,
  };
}

const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));

function variantOf(exported, format) {
  const name = format ?? Object.keys(exported.variants)[0];
  const variant = exported.variants[name];
  if (!variant) throw new Error(`no ${name}; there is: ${Object.keys(exported.variants)}`);
  if (variant.cache_format !== "fp32") throw new Error("this example supports fp32 caches only");
  return [name, variant];
}

// Of weights only the size: a digest takes as long as loading them.
function checkFiles(folder, files) {
  for (const [name, { bytes, sha256 }] of Object.entries(files)) {
    const leaves = isAbsolute(name) || normalize(name).startsWith("..") || /[\\:]/.test(name);
    if (leaves) throw new Error(`the manifest names ${name}, which leaves the folder`);
    const path = join(folder, name);
    if (statSync(path).size !== bytes) throw new Error(`${path} is damaged or half-copied`);
    if (!sha256 || !/\.(onnx|json)$/.test(name)) continue;
    const digest = createHash("sha256").update(readFileSync(path)).digest("hex");
    if (digest !== sha256) throw new Error(`${path} is not the file that was exported`);
  }
}

// Token ids of target and draft: `toDraftIds` by the target's ids, `toTargetIds` by the draft's.
function readVocabulary(folder, { target, draft }) {
  if (draft?.vocabulary) {
    const { inputs, outputs } = readJson(join(folder, draft.vocabulary));
    return { toDraftIds: inputs, toTargetIds: outputs };
  }
  const shared = Math.min(target.vocab_size, draft?.vocab_size ?? target.vocab_size);
  const toDraftIds = Array.from({ length: target.vocab_size }, (_, token) => (token < shared ? token : 0));
  return { toDraftIds, toTargetIds: toDraftIds.slice(0, shared) };
}

async function openModel(folder, exported, format, { threads, minRows = 1, target }) {
  const options = {
    intraOpNumThreads: threads,
    logSeverityLevel: 3,
    extra: { session: { intra_op: { spin_duration_us: "100" } } },
  };
  const sessions = {};
  for (const [name, file] of Object.entries(exported.variants[format].graphs)) {
    sessions[name] = await InferenceSession.create(join(folder, file), options);
  }
  return new Model(exported, sessions, minRows, target);
}

class Model {
  // `target`: the model whose features an EAGLE head takes.
  constructor(exported, sessions, minRows, target) {
    Object.assign(this, { exported, sessions, minRows, target });
    this.hidden = undefined; // an EAGLE head's own hidden state after its last position
  }

  // Starts a text of at most `room` tokens after the prompt. Returns the pending token, whose logits
  // are the first that decoding needs.
  async prefill(prompt, room) {
    const { capacity, start_token } = this.exported;
    if (prompt.length > capacity) {
      throw new Error(`the prompt has ${prompt.length} tokens and the cache holds ${capacity}`);
    }
    this.#allocate(Math.min(capacity, room + (this.sessions.encoder ? 0 : prompt.length)));
    if (this.sessions.encoder) {
      this.cross = await this.sessions.encoder.run({ tokens: int64(prompt) });
      return start_token;
    }
    if (prompt.length > 1) await this.#run(prompt.slice(0, -1), prompt.length - 2);
    return prompt.at(-1);
  }

  // onnxruntime-node copies its inputs, so a cache is no larger than its text. Runtimes that bind
  // memory (Python, C, C#, Java) copy nothing, and a cache may have any size.
  #allocate(capacity) {
    const { kv_heads, head_size, layers, features } = this.exported;
    const shape = [1, kv_heads, capacity + this.minRows - 1, head_size];
    this.capacity = capacity;
    this.cache = {}; // input and output of each call
    for (let layer = 0; layer < layers; layer++) {
      for (const part of ["key", "value"]) {
        const size = shape.reduce((a, b) => a * b);
        this.cache[`${part}.${layer}`] = new Tensor("float32", new Float32Array(size), shape);
      }
    }
    if (!this.sessions.feature_fusion) this.features = new Float32Array(capacity * (features ?? 0));
    this.length = 0;
    this.validLength = 0; // leading positions that are final as long as the text keeps their tokens
  }

  // Appends tokens to the cache; returns a row of logits for each.
  async score(tokens) {
    const width = this.exported.vocab_size;
    const logits = await this.#run(tokens, 0);
    return tokens.map((_, row) => logits.subarray(row * width, (row + 1) * width));
  }

  rewind(length) {
    this.length = length;
    this.validLength = Math.min(this.validLength, length);
  }

  async #run(tokens, skip) {
    const rows = Math.max(tokens.length, this.minRows); // dummy tokens after the text are overwritten later
    const padded = [...tokens, ...Array(rows - tokens.length).fill(0)];
    const feeds = {
      tokens: int64(padded),
      past_length: int64([this.length]),
      skip: int64([skip]),
      ...this.cross,
    };
    const fetches = { logits: null };
    for (const [name, tensor] of Object.entries(this.cache)) {
      feeds[`past_${name}`] = tensor;
      fetches[`present_${name}`] = tensor;
    }
    if (this.sessions.feature_fusion) {
      feeds.fused_states = await this.#fusedStates(tokens.length);
      fetches.hidden = null;
    } else if (this.exported.features) fetches.features = null;
    const found = await this.sessions.decoder.run(feeds, fetches);
    if (found.features) {
      const size = this.exported.features;
      this.features.set(found.features.data.subarray(0, tokens.length * size), this.length * size);
    }
    if (found.hidden) {
      const width = found.hidden.dims[1];
      this.hidden = found.hidden.data.slice((tokens.length - 1) * width, tokens.length * width);
    } else this.validLength = this.length + tokens.length;
    this.length += tokens.length;
    return found.logits.data;
  }

  // The fused state of the position before each of the next `count`: from the target's features there
  // or, where the target has not been, the head's own hidden state.
  async #fusedStates(count) {
    const size = this.exported.features;
    const first = this.length;
    if (first + count > this.target.length + 1) {
      return new Tensor("float32", this.hidden, [1, this.hidden.length]);
    }
    const before = new Float32Array(count * size);
    const from = Math.max(first - 1, 0);
    const known = this.target.features.subarray(from * size, (first + count - 1) * size);
    before.set(known, (from - (first - 1)) * size);
    const features = new Tensor("float32", before, [count, size]);
    const { fused_states: states } = await this.sessions.feature_fusion.run({ features });
    if (first === 0) states.data.fill(0, 0, states.dims[1]); // no position is before the first
    if (this.validLength === first) this.validLength = first + count;
    return states;
  }
}

function int64(numbers) {
  return new Tensor("int64", BigInt64Array.from(numbers, BigInt), [numbers.length]);
}

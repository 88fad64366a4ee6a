// An exported pair, as docs/format.md describes it: the manifest and its two models.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import { InferenceSession, Tensor } from "onnxruntime-node";

export async function openPair(folder, { targetFormat, draftFormat, threads = 0 } = {}) {
  const manifest = readJson(join(folder, "edgespec.json"));
  if (manifest.version !== 1) throw new Error(`format version ${manifest.version}; this reads 1`);
  const open = (exported, format, features) =>
    openModel(folder, exported, format ?? Object.keys(exported.variants)[0], threads, features);
  const target = await open(manifest.target, targetFormat);
  const draft = manifest.draft && (await open(manifest.draft, draftFormat, target));
  return {
    manifest,
    tokenizer: new Tokenizer(readJson(join(folder, "tokenizer.json")), {}),
    target,
    draft,
    vocabulary: readVocabulary(folder, manifest),
  };
}

const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));

// Which of the target's tokens a draft has: `inputs` by the target's numbers, `outputs` by its own.
function readVocabulary(folder, { target, draft }) {
  if (draft?.vocabulary) return readJson(join(folder, draft.vocabulary));
  const width = Math.min(target.vocab_size, draft?.vocab_size ?? target.vocab_size);
  const inputs = Array.from({ length: target.vocab_size }, (_, token) => (token < width ? token : 0));
  return { inputs, outputs: inputs.slice(0, width) };
}

async function openModel(folder, exported, format, threads, target) {
  const variant = exported.variants[format];
  if (!variant) throw new Error(`no ${format}; there is: ${Object.keys(exported.variants)}`);
  if ((variant.cache ?? "fp32") !== "fp32") throw new Error(`this example keeps fp32 caches only`);
  const options = {
    intraOpNumThreads: threads,
    logSeverityLevel: 3,
    extra: { session: { intra_op: { spin_duration_us: "100" } } },
  };
  const sessions = {};
  for (const [name, file] of Object.entries(variant.graphs)) {
    sessions[name] = await InferenceSession.create(join(folder, file), options);
  }
  return new Model(exported, variant, sessions, target);
}

export class Model {
  // `target`: of a draft; one that reads hidden states takes them from there.
  constructor(exported, variant, sessions, target) {
    this.exported = exported;
    this.sessions = sessions;
    this.minRows = target ? 1 : (variant.row_invariance?.min_rows ?? 2);
    this.target = target;
    this.hidden = undefined; // of a draft that reads: its own guess at the target's next state
  }

  // Starts a text of at most `room` tokens behind the prompt; returns the pending token, the one
  // whose logits come first.
  async prefill(prompt, room) {
    this.#allocate(Math.min((this.sessions.encoder ? 0 : prompt.length) + room, this.exported.capacity));
    if (this.sessions.encoder) {
      this.cross = await this.sessions.encoder.run({ tokens: int64(prompt) });
      return this.exported.start_token;
    }
    if (prompt.length > this.capacity) throw new Error(`the cache holds ${this.capacity} tokens`);
    if (prompt.length > 1) await this.#run(prompt.slice(0, -1), prompt.length - 2);
    return prompt.at(-1);
  }

  // onnxruntime-node copies its inputs, so a cache is no larger than its text. Where a runtime binds
  // memory (Python, C, C#, Java), it may have any size, and nothing is copied.
  #allocate(capacity) {
    const { kv_heads, head_size, layers, features } = this.exported;
    const shape = [1, kv_heads, capacity + this.minRows - 1, head_size];
    this.capacity = capacity;
    this.cache = {}; // in and out of each call
    for (let layer = 0; layer < layers; layer++) {
      for (const part of ["key", "value"]) {
        const size = shape.reduce((a, b) => a * b);
        this.cache[`${part}.${layer}`] = new Tensor("float32", new Float32Array(size), shape);
      }
    }
    if (!this.sessions.reader) this.features = new Float32Array(capacity * (features ?? 0));
    this.length = 0;
    this.settled = 0; // positions that stay as they are if the text keeps their tokens
  }

  // Appends tokens to the cache; returns a row of logits for each.
  async score(tokens) {
    const width = this.exported.vocab_size;
    const logits = await this.#run(tokens, 0);
    return tokens.map((_, row) => logits.subarray(row * width, (row + 1) * width));
  }

  rewind(length) {
    this.length = length;
    this.settled = Math.min(this.settled, length);
  }

  async #run(tokens, skip) {
    const rows = Math.max(tokens.length, this.minRows); // dummies behind the text are overwritten
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
    if (this.sessions.reader) {
      feeds.states = await this.#states(tokens.length, rows);
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
    } else this.settled = this.length + tokens.length;
    this.length += tokens.length;
    return found.logits.data;
  }

  // What a draft that reads is to know of the position before each of its own: what the target
  // showed there or, where the target has not been, its own guess.
  async #states(count, rows) {
    const size = this.exported.features;
    const first = this.length;
    if (first + count > this.target.length + 1) {
      return new Tensor("float32", this.hidden, [1, this.hidden.length]);
    }
    const shown = new Float32Array(rows * size);
    const from = Math.max(first - 1, 0);
    const known = this.target.features.subarray(from * size, (first + count - 1) * size);
    shown.set(known, (from - (first - 1)) * size);
    const features = new Tensor("float32", shown, [rows, size]);
    const { states } = await this.sessions.reader.run({ features });
    if (first === 0) states.data.fill(0, 0, states.dims[1]); // nothing is before the first
    if (this.settled === first) this.settled = first + count;
    return states;
  }
}

function int64(numbers) {
  return new Tensor("int64", BigInt64Array.from(numbers, BigInt), [numbers.length]);
}

// A model's cache: tensors that are input and output of each call.
//
// Runtimes copy them at each call (onnxruntime-node 1.30 and onnxruntime-web 1.30 do), so they are no
// larger than the text needs, and grow with it.

import type { Tensor } from "onnxruntime-common";
import { CacheNotWrittenError, OutOfMemoryError } from "../errors.js";
import type { Host, TensorData, TensorType } from "../host.js";
import type { CacheFormat, Exported, LayerShape } from "./manifest.js";

const STEP = 128; // positions that a cache grows by

const FORMATS: Readonly<Record<CacheFormat, { type: TensorType; array: new (length: number) => TensorData }>> = {
  fp32: { type: "float32", array: Float32Array },
  fp16: { type: "float16", array: Uint16Array },
  int8: { type: "int8", array: Int8Array },
};

/** A part of the cache: [1, heads, positions, width]. */
interface Buffer {
  readonly past: string;
  readonly present: string;
  readonly type: TensorType;
  readonly array: new (length: number) => TensorData;
  readonly heads: number;
  readonly width: number;
}

export class Cache {
  readonly #host: Host;
  readonly #buffers: readonly Buffer[];
  #positions = 0;
  #tensors: Tensor[] = []; // one for each buffer
  #wasWritten = false;

  constructor(host: Host, exported: Exported, format: CacheFormat) {
    this.#host = host;
    this.#buffers = buffersOf(exported, format);
  }

  /**
   * Makes room for a call.
   *
   * @param length positions that are kept.
   * @param end positions after the call.
   */
  async reserve(length: number, end: number): Promise<void> {
    if (end <= this.#positions) return;
    const positions = Math.ceil(end / STEP) * STEP;
    const tensors: Tensor[] = [];
    for (const [index, buffer] of this.#buffers.entries()) {
      const old = this.#tensors[index];
      tensors.push(await this.#grown(buffer, old, length, positions));
      old?.dispose();
    }
    [this.#tensors, this.#positions] = [tensors, positions];
  }

  /** The cache as inputs of a call, and as its outputs. */
  bind(feeds: Record<string, Tensor>, fetches: Record<string, Tensor | null>): void {
    for (const [index, { past, present }] of this.#buffers.entries()) {
      const tensor = this.#tensors[index]!;
      feeds[past] = tensor;
      fetches[present] = this.#host.writesOutputs ? tensor : null;
    }
  }

  /**
   * Takes the outputs of a call, where the host does not write them in place.
   *
   * @throws CacheNotWrittenError: the first call of all left the cache as it was.
   */
  async take(outputs: Readonly<Record<string, Tensor>>): Promise<void> {
    if (!this.#host.writesOutputs) {
      for (const tensor of this.#tensors) tensor.dispose();
      this.#tensors = this.#buffers.map(({ present }) => outputs[present]!);
    }
    if (this.#wasWritten) return;
    const keys = (await this.#tensors[0]!.getData()) as TensorData;
    this.#wasWritten = keys.some((value) => Number(value) !== 0);
    if (!this.#wasWritten) throw new CacheNotWrittenError(this.#host.runtime);
  }

  dispose(): void {
    for (const tensor of this.#tensors) tensor.dispose();
    [this.#tensors, this.#positions] = [[], 0];
  }

  async #grown(
    { type, array, heads, width }: Buffer,
    old: Tensor | undefined,
    length: number,
    positions: number,
  ): Promise<Tensor> {
    const data = this.#allocated(array, heads * positions * width, positions);
    if (old !== undefined) {
      const known = (await old.getData()) as TensorData;
      for (let head = 0; head < heads; head++) {
        const from = head * this.#positions * width;
        data.set(known.subarray(from, from + length * width) as never, head * positions * width);
      }
    }
    return this.#host.tensor(type, data, [1, heads, positions, width]);
  }

  #allocated(array: new (length: number) => TensorData, size: number, positions: number): TensorData {
    try {
      return new array(size);
    } catch (error) {
      throw new OutOfMemoryError(`a cache of ${positions} positions`, error);
    }
  }
}

function buffersOf(exported: Exported, format: CacheFormat): Buffer[] {
  const { layers, kv_heads, head_size, layer_shapes: shapes } = exported;
  return Array.from({ length: layers }).flatMap((_, layer) => {
    const shape = shapes?.[layer] ?? { kv_heads, head_size };
    return [`key.${layer}`, `value.${layer}`].flatMap((part) => partBuffers(part, shape, format));
  });
}

function partBuffers(part: string, { kv_heads: heads, head_size: width }: LayerShape, format: CacheFormat): Buffer[] {
  const { type, array } = FORMATS[format];
  const buffer = { past: `past_${part}`, present: `present_${part}`, type, array, heads, width };
  if (format !== "int8") return [buffer];
  const scale = {
    past: `past_${part}.scale`,
    present: `present_${part}.scale`,
    type: "float32",
    array: Float32Array,
    heads,
    width: 1,
  } as const;
  return [buffer, scale];
}

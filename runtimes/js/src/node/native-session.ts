// A session of ONNX Runtime's C interface: outputs are written where they are wanted, and nothing is copied.

import { Tensor } from "onnxruntime-common";
import type { Session, TensorData, TensorType } from "../host.js";
import { type Address, OrtApi } from "./ort-api.js";

// ONNXTensorElementDataType, and the arrays of such numbers.
const TYPES: Readonly<Record<number, { type: TensorType; array: new (bytes: ArrayBuffer) => TensorData }>> = {
  1: { type: "float32", array: Float32Array },
  3: { type: "int8", array: Int8Array },
  7: { type: "int64", array: BigInt64Array },
  10: { type: "float16", array: Uint16Array },
};
const NUMBERS = new Map(Object.entries(TYPES).map(([number, { type }]) => [type as string, Number(number)]));

type Tensors = Readonly<Record<string, Tensor>>;
type Fetches = Readonly<Record<string, Tensor | null>>;

export class NativeSession implements Session {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly #api: OrtApi;
  readonly #session: Address;
  readonly #values: TensorValues;
  readonly #names = new Map<string, readonly [Address, Uint8Array]>();
  #running: Promise<unknown> = Promise.resolve();
  readonly #inUse = new Set<unknown>(); // memory that a call reads or writes: it must not be collected meanwhile

  constructor(api: OrtApi, session: Address) {
    this.#api = api;
    this.#session = session;
    this.#values = new TensorValues(api);
    this.inputNames = api.inputNames(session);
    this.outputNames = api.outputNames(session);
    for (const name of [...this.inputNames, ...this.outputNames]) this.#names.set(name, api.cString(name));
  }

  async run(feeds: Tensors, fetches: Fetches): Promise<Tensors> {
    const [given, wanted] = [Object.entries(feeds), Object.entries(fetches)];
    const inputs = BigUint64Array.from(given, ([, tensor]) => this.#values.of(tensor));
    const outputs = BigUint64Array.from(wanted, ([, tensor]) => (tensor === null ? 0n : this.#values.of(tensor)));
    const [inputNames, outputNames] = [this.#addresses(given), this.#addresses(wanted)];
    for (const used of [feeds, fetches, inputNames, inputs, outputNames, outputs]) this.#inUse.add(used);
    const running = this.#api.run(this.#session, inputNames, inputs, outputNames, outputs);
    this.#running = running.catch(() => undefined); // whoever waits for it to be released needs no result
    await running;
    this.#inUse.clear();
    return Object.fromEntries(wanted.map(([name, tensor], index) => [name, tensor ?? this.#taken(outputs[index]!)]));
  }

  /** After the call that runs now. */
  async release(): Promise<void> {
    await this.#running;
    this.#api.releaseSession(this.#session);
  }

  #addresses(named: readonly (readonly [string, unknown])[]): BigUint64Array {
    return BigUint64Array.from(named, ([name]) => {
      const found = this.#names.get(name);
      if (found === undefined) throw new Error(`the graph has no input or output ${name}`);
      return found[0];
    });
  }

  /** A tensor of the runtime's, copied into JavaScript's memory. */
  #taken(value: Address): Tensor {
    try {
      const { type, dims, data } = this.#api.tensor(value);
      const kind = TYPES[type];
      if (kind === undefined) throw new Error(`an output has numbers of type ${type}`);
      const count = dims.reduce((product, dim) => product * dim, 1);
      const bytes = this.#api.bytes(data, count * new kind.array(new ArrayBuffer(0)).BYTES_PER_ELEMENT);
      return new Tensor(kind.type, new kind.array(bytes.buffer), dims);
    } finally {
      this.#api.releaseValue(value);
    }
  }
}

/** The runtime's tensors over the memory of JavaScript's, made once for each. */
class TensorValues {
  readonly #api: OrtApi;
  readonly #values = new WeakMap<Tensor, Address>();
  readonly #registry: FinalizationRegistry<Address>;

  constructor(api: OrtApi) {
    this.#api = api;
    this.#registry = new FinalizationRegistry((value) => api.releaseValue(value));
  }

  of(tensor: Tensor): Address {
    const known = this.#values.get(tensor);
    if (known !== undefined) return known;
    const type = NUMBERS.get(tensor.type);
    if (type === undefined) throw new Error(`tensors of ${tensor.type} are not passed to the runtime`);
    const value = this.#api.createTensor(tensor.data as TensorData, tensor.dims, type);
    this.#values.set(tensor, value);
    this.#registry.register(tensor, value);
    return value;
  }
}

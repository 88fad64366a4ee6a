// A session of ONNX Runtime's C interface: outputs are written where they are wanted, and nothing is copied.

import { setImmediate } from "node:timers/promises";
import { Tensor } from "onnxruntime-common";
import type { Session, TensorData, TensorType } from "../host.js";
import { type Address, type OrtApi } from "./ort-api.js";

// ONNXTensorElementDataType, and the arrays of such numbers.
const TYPES: Readonly<Record<number, { type: TensorType; array: new (bytes: ArrayBuffer) => TensorData }>> = {
  1: { type: "float32", array: Float32Array },
  3: { type: "int8", array: Int8Array },
  7: { type: "int64", array: BigInt64Array },
  10: { type: "float16", array: Uint16Array },
};
const NUMBERS = new Map(Object.entries(TYPES).map(([number, { type }]) => [type as string, Number(number)]));

const TURN = 10; // milliseconds between two turns of the event loop, which a draft's call would wait a tenth of one for

type Tensors = Readonly<Record<string, Tensor>>;
type Fetches = Readonly<Record<string, Tensor | null>>;

export class NativeSession implements Session {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly #api: OrtApi;
  readonly #session: Address;
  readonly #values: TensorValues;
  readonly #names = new Map<string, readonly [Address, Uint8Array]>();
  #lastTurn = -Infinity;

  constructor(api: OrtApi, session: Address) {
    this.#api = api;
    this.#session = session;
    this.#values = new TensorValues(api);
    this.inputNames = api.inputNames(session);
    this.outputNames = api.outputNames(session);
    for (const name of [...this.inputNames, ...this.outputNames]) this.#names.set(name, api.cString(name));
  }

  /** The event loop waits meanwhile, as with onnxruntime-node. */
  async run(feeds: Tensors, fetches: Fetches): Promise<Tensors> {
    await this.#turn();
    const wanted = Object.entries(fetches);
    const inputs = BigUint64Array.from(Object.values(feeds), (tensor) => this.#values.of(tensor));
    const outputs = BigUint64Array.from(wanted, ([, tensor]) => (tensor === null ? 0n : this.#values.of(tensor)));
    this.#api.run(
      this.#session,
      this.#addresses(Object.keys(feeds)),
      inputs,
      this.#addresses(Object.keys(fetches)),
      outputs,
    );
    return Object.fromEntries(wanted.map(([name, tensor], index) => [name, tensor ?? this.#taken(outputs[index]!)]));
  }

  async release(): Promise<void> {
    this.#api.releaseSession(this.#session);
  }

  /** Lets the event loop hear of signals and timers, if it did not just now. */
  async #turn(): Promise<void> {
    if (performance.now() - this.#lastTurn < TURN) return;
    await setImmediate();
    this.#lastTurn = performance.now();
  }

  #addresses(names: readonly string[]): BigUint64Array {
    return BigUint64Array.from(names, (name) => {
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

// onnxruntime-web's WebAssembly module, called through its C exports: tensors lie in its memory, and a call copies none.
//
// onnxruntime-web's own interface copies every input into that memory and every output out of it, the whole
// cache each time (https://github.com/microsoft/onnxruntime/issues/25786). The exports have no documentation and may
// change with any version, so `runtime.ts` takes them only from the version that they were tested with.

import { Tensor } from "onnxruntime-common";
import type { Session, TensorData, TensorType } from "../host.js";
import type { ExternalData } from "./open-graph.js";

/** An address in the module's memory. */
type Address = number;

/** The part of the module that is used; the functions whose names begin with _Ort return 0 for a failure that makes something. */
interface OrtModule {
  readonly HEAPU8: Uint8Array;
  _malloc(bytes: number): Address;
  _free(address: Address): void;
  stackSave(): Address;
  stackRestore(stack: Address): void;
  stackAlloc(bytes: number): Address;
  getValue(address: Address, type: "*"): number;
  setValue(address: Address, value: number, type: "*"): void;
  UTF8ToString(address: Address): string;
  lengthBytesUTF8(text: string): number;
  stringToUTF8(text: string, address: Address, bytes: number): void;
  mountExternalData(path: string, data: Uint8Array): void;
  unmountExternalData(): void;
  _OrtInit(threads: number, logLevel: number): number;
  _OrtGetLastError(code: Address, message: Address): number;
  _OrtCreateSessionOptions(
    optimization: number,
    arena: boolean,
    pattern: boolean,
    mode: number,
    profile: boolean,
    prefix: Address,
    id: Address,
    severity: number,
    verbosity: number,
    optimizedFile: Address,
  ): Address;
  _OrtAddSessionConfigEntry(options: Address, key: Address, value: Address): number;
  _OrtReleaseSessionOptions(options: Address): number;
  _OrtCreateSession(graph: Address, bytes: number, options: Address): Address | Promise<Address>;
  _OrtReleaseSession(session: Address): number;
  _OrtGetInputOutputCount(session: Address, inputs: Address, outputs: Address): number;
  _OrtGetInputOutputMetadata(session: Address, index: number, name: Address, metadata: Address): number;
  _OrtFree(address: Address): number;
  _OrtCreateTensor(type: number, data: Address, bytes: number, dims: Address, rank: number, location: number): Address;
  _OrtGetTensorData(tensor: Address, type: Address, data: Address, dims: Address, rank: Address): number;
  _OrtReleaseTensor(tensor: Address): number;
  _OrtRun(
    session: Address,
    inputNames: Address,
    inputs: Address,
    inputCount: number,
    outputNames: Address,
    outputCount: number,
    outputs: Address,
    options: Address,
  ): number | Promise<number>;
}

const POINTER = 4; // bytes
const ERRORS_ONLY = 3;
const ALL_OPTIMIZATIONS = 99;
const CPU = 1; // location of a tensor
// ONNXTensorElementDataType, and the arrays of such numbers.
const TYPES: Readonly<
  Record<
    number,
    {
      type: TensorType;
      array: new (memory: ArrayBufferLike, offset: number, length: number) => TensorData;
      bytes: number;
    }
  >
> = {
  1: { type: "float32", array: Float32Array, bytes: 4 },
  3: { type: "int8", array: Int8Array, bytes: 1 },
  7: { type: "int64", array: BigInt64Array, bytes: 8 },
  10: { type: "float16", array: Uint16Array, bytes: 2 },
};
const NUMBERS = new Map(Object.entries(TYPES).map(([number, { type }]) => [type, Number(number)]));

/** A tensor in the module's memory. */
interface Resident {
  readonly data: Address;
  readonly value: Address;
}

type Tensors = Readonly<Record<string, Tensor>>;

/** The module's memory, its tensors and its sessions. */
export class Heap {
  readonly #module: OrtModule;
  readonly #residents = new WeakMap<Tensor, Resident>();
  readonly #dropped = new FinalizationRegistry<Resident>((resident) => this.#free(resident));

  private constructor(module: OrtModule) {
    this.#module = module;
  }

  /** @param module URL of ort-wasm-simd-threaded.mjs; the .wasm file lies beside it. */
  static async open(module: string, threads: number): Promise<Heap> {
    const { default: create } = (await import(/* webpackIgnore: true */ /* @vite-ignore */ module)) as {
      default: (settings: object) => Promise<OrtModule>;
    };
    const heap = new Heap(
      await create({ numThreads: threads, locateFile: (file: string) => new URL(file, module).href }),
    );
    heap.#check(heap.#module._OrtInit(threads, ERRORS_ONLY) === 0);
    return heap;
  }

  /** A tensor over a copy of `data` in the module's memory. Its memory is freed by `dispose`, or when it is collected. */
  tensor(type: TensorType, data: TensorData, dims: readonly number[]): Tensor {
    const address = this.#allocated(data.byteLength);
    const { array } = TYPES[NUMBERS.get(type)!]!;
    const view = new array(this.#module.HEAPU8.buffer, address, data.length);
    view.set(data as never);
    const tensor = new Tensor(type, view, dims);
    const resident = { data: address, value: this.#createTensor(NUMBERS.get(type)!, address, data.byteLength, dims) };
    this.#residents.set(tensor, resident);
    this.#dropped.register(tensor, resident, tensor);
    tensor.dispose = () => this.#dispose(tensor, resident);
    return tensor;
  }

  /** Opens a graph. @param weights the files with its external data. */
  async openSession(graph: Uint8Array, weights: readonly ExternalData[]): Promise<Session> {
    const module = this.#module;
    const options = this.#made(
      module._OrtCreateSessionOptions(ALL_OPTIMIZATIONS, true, true, 0, false, 0, 0, ERRORS_ONLY, 0, 0),
    );
    const address = this.#allocated(graph.length);
    try {
      this.#withStrings(["session.use_ort_model_bytes_directly", "1"], ([key, value]) =>
        this.#check(module._OrtAddSessionConfigEntry(options, key!, value!) === 0),
      );
      module.HEAPU8.set(graph, address);
      for (const { path, data } of weights) module.mountExternalData(path, data);
      const session = this.#made(await module._OrtCreateSession(address, graph.length, options));
      return new HeapSession(this, session, ...this.#namesOf(session));
    } finally {
      module.unmountExternalData();
      module._free(address);
      module._OrtReleaseSessionOptions(options);
    }
  }

  /** Runs a session; names and values by address. Returns what each output is. */
  async run(
    session: Address,
    inputNames: readonly Address[],
    inputs: readonly Tensor[],
    outputNames: readonly Address[],
    outputs: readonly (Tensor | null)[],
  ): Promise<Tensor[]> {
    const module = this.#module;
    const stack = module.stackSave();
    try {
      const values = this.#array(outputs.map((tensor) => (tensor === null ? 0 : this.#valueOf(tensor))));
      const failed = await module._OrtRun(
        session,
        this.#array(inputNames),
        this.#array(inputs.map((tensor) => this.#valueOf(tensor))),
        inputs.length,
        this.#array(outputNames),
        outputs.length,
        values,
        0,
      );
      this.#check(failed === 0);
      return outputs.map((tensor, index) => tensor ?? this.#taken(module.getValue(values + index * POINTER, "*")));
    } finally {
      module.stackRestore(stack);
    }
  }

  releaseSession(session: Address, names: Iterable<Address>): void {
    for (const name of names) this.#module._OrtFree(name);
    this.#module._OrtReleaseSession(session);
  }

  #namesOf(session: Address): [inputs: Map<string, Address>, outputs: Map<string, Address>] {
    const module = this.#module;
    const stack = module.stackSave();
    try {
      const found = module.stackAlloc(2 * POINTER);
      this.#check(module._OrtGetInputOutputCount(session, found, found + POINTER) === 0);
      const [inputs, outputs] = [module.getValue(found, "*"), module.getValue(found + POINTER, "*")];
      const named = Array.from({ length: inputs + outputs }, (_, index): [string, Address] => {
        this.#check(module._OrtGetInputOutputMetadata(session, index, found, found + POINTER) === 0);
        module._OrtFree(module.getValue(found + POINTER, "*"));
        const name = module.getValue(found, "*");
        return [module.UTF8ToString(name), name];
      });
      return [new Map(named.slice(0, inputs)), new Map(named.slice(inputs))];
    } finally {
      module.stackRestore(stack);
    }
  }

  #valueOf(tensor: Tensor): Address {
    const resident = this.#residents.get(tensor);
    if (resident === undefined) throw new Error("a tensor is not in the runtime's memory, or was disposed of");
    return resident.value;
  }

  /** An output that the runtime allocated, moved into a tensor of this heap. */
  #taken(value: Address): Tensor {
    const module = this.#module;
    const stack = module.stackSave();
    try {
      const found = module.stackAlloc(4 * POINTER);
      this.#check(
        module._OrtGetTensorData(value, found, found + POINTER, found + 2 * POINTER, found + 3 * POINTER) === 0,
      );
      const [type, data, dimsAddress, rank] = [0, 1, 2, 3].map((index) =>
        module.getValue(found + index * POINTER, "*"),
      ) as [number, number, number, number];
      const dims = Array.from({ length: rank }, (_, index) => module.getValue(dimsAddress + index * POINTER, "*"));
      module._OrtFree(dimsAddress);
      const kind = TYPES[type];
      if (kind === undefined) throw new Error(`an output has numbers of type ${type}`);
      const count = dims.reduce((product, dim) => product * dim, 1);
      return this.tensor(kind.type, new kind.array(module.HEAPU8.buffer, data, count), dims);
    } finally {
      module.stackRestore(stack);
      module._OrtReleaseTensor(value);
    }
  }

  #createTensor(type: number, data: Address, bytes: number, dims: readonly number[]): Address {
    const module = this.#module;
    const stack = module.stackSave();
    try {
      return this.#made(module._OrtCreateTensor(type, data, bytes, this.#array(dims), dims.length, CPU));
    } finally {
      module.stackRestore(stack);
    }
  }

  #dispose(tensor: Tensor, resident: Resident): void {
    if (!this.#residents.delete(tensor)) return;
    this.#dropped.unregister(tensor);
    this.#free(resident);
  }

  #free({ data, value }: Resident): void {
    this.#module._OrtReleaseTensor(value);
    this.#module._free(data);
  }

  /** Numbers on the stack, until it is restored. */
  #array(numbers: readonly number[]): Address {
    const address = this.#module.stackAlloc(numbers.length * POINTER);
    for (const [index, number] of numbers.entries()) this.#module.setValue(address + index * POINTER, number, "*");
    return address;
  }

  #withStrings(texts: readonly string[], use: (addresses: readonly Address[]) => void): void {
    const module = this.#module;
    const stack = module.stackSave();
    try {
      use(
        texts.map((text) => {
          const bytes = module.lengthBytesUTF8(text) + 1;
          const address = module.stackAlloc(bytes);
          module.stringToUTF8(text, address, bytes);
          return address;
        }),
      );
    } finally {
      module.stackRestore(stack);
    }
  }

  #allocated(bytes: number): Address {
    const address = this.#module._malloc(bytes);
    if (address === 0) throw new Error(`out of memory: ${bytes} bytes of WebAssembly's memory`);
    return address;
  }

  #made(address: Address): Address {
    this.#check(address !== 0);
    return address;
  }

  #check(succeeded: boolean): void {
    if (succeeded) return;
    const module = this.#module;
    const stack = module.stackSave();
    try {
      const found = module.stackAlloc(2 * POINTER);
      module._OrtGetLastError(found, found + POINTER);
      throw new Error(module.UTF8ToString(module.getValue(found + POINTER, "*")));
    } finally {
      module.stackRestore(stack);
    }
  }
}

class HeapSession implements Session {
  readonly #heap: Heap;
  readonly #session: Address;
  readonly #inputs: ReadonlyMap<string, Address>;
  readonly #outputs: ReadonlyMap<string, Address>;

  constructor(
    heap: Heap,
    session: Address,
    inputs: ReadonlyMap<string, Address>,
    outputs: ReadonlyMap<string, Address>,
  ) {
    this.#heap = heap;
    this.#session = session;
    this.#inputs = inputs;
    this.#outputs = outputs;
  }

  get inputNames(): readonly string[] {
    return [...this.#inputs.keys()];
  }

  get outputNames(): readonly string[] {
    return [...this.#outputs.keys()];
  }

  async run(feeds: Tensors, fetches: Readonly<Record<string, Tensor | null>>): Promise<Tensors> {
    const [given, wanted] = [Object.keys(feeds), Object.keys(fetches)];
    const made = await this.#heap.run(
      this.#session,
      given.map((name) => addressOf(this.#inputs, name)),
      Object.values(feeds),
      wanted.map((name) => addressOf(this.#outputs, name)),
      Object.values(fetches),
    );
    return Object.fromEntries(wanted.map((name, index) => [name, made[index]!]));
  }

  async release(): Promise<void> {
    this.#heap.releaseSession(this.#session, [...this.#inputs.values(), ...this.#outputs.values()]);
  }
}

function addressOf(names: ReadonlyMap<string, Address>, name: string): Address {
  const address = names.get(name);
  if (address === undefined) throw new Error(`the graph has no input or output ${name}`);
  return address;
}

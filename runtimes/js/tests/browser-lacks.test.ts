// Claim: what a browser lacks is an error of its own, before anything is downloaded.

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { EdgespecError, NoSimdError, NoThreadsError, NoWebGpuError, UsageError } from "../src/errors.js";
import { startRuntime } from "../src/web/runtime.js";

/** Whether an error is of this class and one sentence. */
function isOneSentence(kind: new (...given: never[]) => EdgespecError): (error: unknown) => boolean {
  return (error) => error instanceof kind && !error.message.includes("\n");
}

function setGpu(t: TestContext, gpu: object | undefined): void {
  Object.defineProperty(globalThis, "navigator", { value: { gpu }, configurable: true });
  t.after(() => Reflect.deleteProperty(globalThis, "navigator"));
}

test("WebAssembly without SIMD", async (t) => {
  t.mock.method(WebAssembly, "validate", () => false);
  await assert.rejects(startRuntime(), isOneSentence(NoSimdError));
});

test("two threads where memory cannot be shared", async () => {
  await assert.rejects(startRuntime({ threads: 2 }), isOneSentence(NoThreadsError));
  await assert.rejects(startRuntime({ threads: 0 }), isOneSentence(UsageError));
});

test("no WebGPU at all", async (t) => {
  setGpu(t, undefined);
  await assert.rejects(startRuntime({ provider: "webgpu" }), isOneSentence(NoWebGpuError));
});

test("WebGPU without an adapter", async (t) => {
  setGpu(t, { requestAdapter: async () => null });
  await assert.rejects(startRuntime({ provider: "webgpu" }), isOneSentence(NoWebGpuError));
});

test("caches in place on a GPU, or without the runtime's files", async (t) => {
  await assert.rejects(startRuntime({ inPlace: true }), isOneSentence(UsageError));
  setGpu(t, { requestAdapter: async () => ({}) });
  await assert.rejects(
    startRuntime({ provider: "webgpu", inPlace: true, wasmPaths: "https://example.org/" }),
    isOneSentence(UsageError),
  );
});

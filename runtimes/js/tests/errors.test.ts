// Claim: each kind of failure has a class of its own with one sentence.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as errors from "../src/errors.js";

const { EdgespecError, asRuntimeError, shortened, ...others } = errors;
const ARGUMENTS = ["build/pair", "what happened", 2];

test("an error's message is one line that says a way out, and its name is its class", () => {
  const classes = Object.entries(others) as [string, new (...given: unknown[]) => Error][];
  assert.ok(classes.length >= 20);
  for (const [name, Class] of classes) {
    const error = new Class(...(name === "AbortedError" ? [] : ARGUMENTS));
    assert.ok(error instanceof EdgespecError);
    assert.equal(error.name, name === "AbortedError" ? "AbortError" : name);
    assert.doesNotMatch(error.message, /\n|undefined|\[object/);
    if (!["UsageError", "ModelError"].includes(name)) assert.match(error.message, /; |, or /, name);
  }
});

test("a runtime's failure becomes one of ours, and memory is told apart", () => {
  assert.ok(asRuntimeError("a call", new Error("bad_alloc\nat …")) instanceof errors.OutOfMemoryError);
  const failed = asRuntimeError("a call", new Error("no such operator\nat …"));
  assert.ok(failed instanceof errors.RuntimeError);
  assert.match(failed.message, /a call failed in the runtime \(no such operator\)/);
  assert.equal(asRuntimeError("a call", failed), failed);
});

test("an abort keeps its reason", () => {
  assert.equal(new errors.AbortedError(AbortSignal.abort("enough")).cause, "enough");
});

// Claim: canonical JSON is as docs/reference/folder-format.md says, numbers spelled as in the file.

import assert from "node:assert/strict";
import { test } from "node:test";
import { canonicalJson } from "../src/pair/canonical-json.js";

test("keys are sorted, white space is gone, numbers stay as they were spelled", () => {
  const text =
    '{ "b": [1, 0.0, -1.9e-06, true, null],\n "a": {"y": "\\u00e9\\n\\"", "x": {}}, "digest": "…", "c": [] }';
  assert.equal(canonicalJson(text, ["digest"]), '{"a":{"x":{},"y":"é\\n\\""},"b":[1,0.0,-1.9e-06,true,null],"c":[]}');
});

test("texts that look like JSON are texts", () => {
  assert.equal(canonicalJson('{"a": "{\\"b\\": [1,  2]}", "\\u0062": ","}', []), '{"a":"{\\"b\\": [1,  2]}","b":","}');
});

test("only the object's own keys are left out", () => {
  assert.equal(canonicalJson('{"a": {"digest": 1}, "digest": 2}', ["digest"]), '{"a":{"digest":1}}');
});

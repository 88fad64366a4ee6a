// The pair's own process, an Electron utility process: opens the folder that it is given, then answers.

import { load } from "@edgespec/edgespec/node";
import { answer } from "./answering.mjs";

const port = process.parentPort;

try {
  answer(port, await load(process.argv[2]));
} catch (error) {
  port.postMessage({ type: "failed", message: error.message });
}

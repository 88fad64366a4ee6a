// Measures pairs for browsers with one thread, and puts the results into their folders:
//
//     node scripts/web/ship_invariance.mjs FOLDER…
//
// Node.js runs the same WebAssembly. A browser confirms the result by a few calls
// (docs/decisions/0025-javascript.md). With more threads it measures for itself.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { serve } from "../../examples/web/serve.mjs";
import { load } from "../../runtimes/js/dist/web/index.js";

for (const folder of process.argv.slice(2)) {
  // Without what an earlier run wrote, which would be confirmed.
  const answer = ({ url }, response) => url === "/row_invariance.json" && response.writeHead(404).end();
  const site = await serve({ "/": folder }, { answer });
  const pair = await load(site.url, { threads: 1 });
  const { manifest, rowInvariance } = pair;
  const [{ graphs }] = Object.values(manifest.target.variants); // exports for the web have one variant
  const entry = { graph: manifest.files[graphs.decoder].sha256, row_invariance: rowInvariance };
  writeFileSync(join(folder, "row_invariance.json"), `${JSON.stringify([entry], null, 1)}\n`);
  console.log(`${folder}: row-invariant ${rowInvariance.is_row_invariant}, ${rowInvariance.measured_on}`);
  await pair.dispose();
  await site.close();
}

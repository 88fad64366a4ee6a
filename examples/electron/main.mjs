// The main process: a window, and a process of its own for the pair, whose calls would block the window.

import { join } from "node:path";
import { app, BrowserWindow, ipcMain, utilityProcess } from "electron";

const HERE = import.meta.dirname;
const FOLDER = process.env.PAIR ?? join(HERE, "../../build/smollm2");

app.on("window-all-closed", () => app.quit());
await app.whenReady();
const window = new BrowserWindow({
  width: 720,
  height: 640,
  webPreferences: { preload: join(HERE, "preload.cjs"), contextIsolation: true, sandbox: true },
});
await window.loadFile(join(HERE, "index.html"));

// Only now, so that the page hears all of it.
const pair = utilityProcess.fork(join(HERE, "pair-process.mjs"), [FOLDER], { serviceName: "edgespec" });
pair.on("message", tell);
pair.on("exit", (code) => tell({ type: "failed", message: `the model's process ended with ${code}` }));
ipcMain.on("pair", (_event, message) => pair.postMessage(message));

/** @param {object} message */
function tell(message) {
  if (!window.isDestroyed()) window.webContents.send("pair", message);
}

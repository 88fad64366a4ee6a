// All that the page may do: send messages to the pair's process and hear its answers.

const { contextBridge, ipcRenderer } = require("electron");

contextBridge.exposeInMainWorld("pair", {
  send: (text) => ipcRenderer.send("pair", { type: "send", text: String(text) }),
  stop: () => ipcRenderer.send("pair", { type: "stop" }),
  onMessage: (heard) => ipcRenderer.on("pair", (_event, message) => heard(message)),
});

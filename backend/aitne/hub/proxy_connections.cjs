// Loaded into the proxy before it starts: connections have deadlines, and their number stays below the limit of open
// files, so that the proxy can always accept another one.
const fs = require("node:fs");
const http = require("node:http");
const https = require("node:https");

const DEADLINES = {
  handshakeTimeout: 10_000, // of TLS
  headersTimeout: 10_000,
  connectionsCheckingInterval: 1_000,
};
const files = Number(/^Max open files\s+(\d+)/m.exec(fs.readFileSync("/proc/self/limits", "utf8"))?.[1] ?? Infinity);
// A connection of a browser takes two files: the other one is the connection to the session.
const MOST = Math.min(Math.floor(files / 4), 16_384);

const open = new Set();
// Those whose client owes the rest of a request, the oldest first. A real client sends it at once.
const owing = new Map();
// With TLS the socket of a request is another object than the one that was accepted.
const nameOf = (socket) => `${socket.remoteAddress} ${socket.remotePort} ${socket.localPort}`;

function count(socket) {
  const name = nameOf(socket);
  if (open.size >= MOST) {
    const [[oldest, victim] = [name, socket]] = owing;
    owing.delete(oldest);
    open.delete(victim);
    victim.destroy();
    if (victim === socket) return;
  }
  open.add(socket);
  owing.set(name, socket);
  socket.once("close", () => {
    open.delete(socket);
    if (owing.get(name) === socket) owing.delete(name);
  });
}

function serve(request, response) {
  const name = nameOf(request.socket);
  const socket = owing.get(name);
  if (socket === undefined) return;
  request.once("end", () => owing.delete(name));
  response.once("close", () => {
    if (open.has(socket)) owing.set(name, socket);
  });
}

for (const module of [http, https]) {
  const createServer = module.createServer;
  module.createServer = function (...given) {
    const options = typeof given[0] === "function" ? {} : given.shift();
    const server = createServer.call(this, { ...options, ...DEADLINES }, ...given);
    server.on("connection", count);
    server.prependListener("request", serve);
    server.prependListener("upgrade", (request) => owing.delete(nameOf(request.socket)));
    return server;
  };
}

// A stand-in for the platform, to look at pages while it does not run: `node dev/mock.mjs [port]`.
// It serves dist/ and the answers of dev/fixtures.mjs. MOCK=empty has no jobs; MOCK=silent has a scheduler that does not answer; MOCK=down answers 503.
// Nothing here is shipped, and no test of the product relies on it.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { ago, jobs, makeJob, nodes, partitions, projectLimits, projects, projectUsage, script, sessions, tasks, templates, tokens, users } from "./fixtures.mjs";

const DIST = fileURLToPath(new URL("../dist", import.meta.url));
const MODE = process.env.MOCK ?? "full";
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const CSP =
  "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'";
const streams = new Set();
let eventId = 100;
let loggedIn = process.env.MOCK_LOGIN !== "out";
let failures = 0;

const schedulerStatus =
  MODE === "silent"
    ? { answering: false, since: ago(190), message: "Unable to contact slurm controller" }
    : { answering: true, since: ago(4000), message: null };
const shownJobs = MODE === "empty" ? [] : jobs;
const shownSessions = MODE === "empty" ? [] : sessions;

function me() {
  return {
    user: { name: "mira", display_name: "Mira Solheim", role: "admin", default_project: "vision" },
    projects: ["vision", "speech"],
    csrf_token: "csrf",
    platform: { title: "Aitne", version: "0.1.0", cluster: "local", scheduler: "local", sessions_origin: "http://127.0.0.1:26003" },
  };
}

function json(response, status, body, headers = {}) {
  const type = status >= 400 ? "application/problem+json" : "application/json";
  response.writeHead(status, { "Content-Type": type, ...headers });
  response.end(body === undefined ? "" : JSON.stringify(body));
}

function problem(response, status, code, detail, problems = [], headers = {}) {
  json(response, status, { type: `urn:aitne:problem:${code}`, title: code.replace("_", " "), status, detail, code, problems }, headers);
}

function broadcast(kind, job, previous) {
  eventId += 1;
  const data = { ...job, previous };
  const event = { id: eventId, time: new Date().toISOString(), kind, job_id: job.id, owner: job.owner, project: job.project, data };
  for (const stream of streams) stream.write(`id: ${eventId}\nevent: ${kind}\ndata: ${JSON.stringify(event)}\n\n`);
}

function page(items, query) {
  const limit = Number(query.get("limit") ?? 100);
  const from = Number(query.get("cursor") ?? 0);
  const states = query.getAll("state");
  const found = items.filter(
    (job) =>
      (states.length === 0 || states.includes(job.state)) &&
      (!query.get("type") || job.type === query.get("type")) &&
      (!query.get("owner") || job.owner === query.get("owner")) &&
      (!query.get("q") || job.name.toLowerCase().includes(query.get("q").toLowerCase())),
  );
  const next = from + limit < found.length ? String(from + limit) : null;
  return { items: found.slice(from, from + limit), next_cursor: next, total: found.length };
}

function plan(file) {
  const gpus = Number(String(file.resources?.gpu ?? 0).split(":").at(-1));
  return {
    spec: {
      type: file.type, name: file.name ?? "job", project: file.project ?? "vision", max_duration_s: 4 * 3600,
      resources: { nodes: file.resources.nodes, cpu: file.resources.cpu, memory_bytes: 2 * 1024 ** 3, gpu: { count: gpus, type: null }, gres: {} },
    },
    fits: gpus <= 4,
    starts_now: gpus < 2,
    waits_for: gpus >= 2 ? "It waits for 2 GPUs on one node: 1 is free. One GPU fewer starts now." : null,
    warnings: [],
    script,
  };
}

const LINES = (index) =>
  index % 9 === 0
    ? `\x1b[32mepoch ${index / 9}\x1b[0m  loss \x1b[1m${(2.4 * Math.exp(-index / 160)).toFixed(4)}\x1b[0m  psnr ${(24 + index / 40).toFixed(2)} dB`
    : index % 31 === 0
      ? `\x1b[33mwarning\x1b[0m: the data loader waited 0.8 s; more workers would help`
      : `  step ${index}  ${(380 + (index % 7) * 3.1).toFixed(1)} images/s  lr 1.0e-03`;

function log(response, job) {
  const first = Array.from({ length: 900 }, (_, index) => LINES(index)).join("\n") + "\n";
  response.writeHead(200, { "Content-Type": "text/plain; charset=utf-8", "X-Log-Offset": "0", "X-Log-Size": String(first.length) });
  response.write(first);
  if (job.ended_at) return response.end();
  let index = 900;
  const timer = setInterval(() => response.write(`${LINES((index += 1))}\n`), 400);
  response.on("close", () => clearInterval(timer));
  return undefined;
}

function samples(job) {
  const begun = Date.parse(job.started_at ?? job.created_at);
  const end = job.ended_at ? Date.parse(job.ended_at) : Date.now();
  const list = [];
  for (let time = begun, index = 0; time < end && index < 400; time += Math.max(2000, (end - begun) / 300), index += 1) {
    list.push({
      time: new Date(time).toISOString(), node: job.nodes[0] ?? "node01", processes: 5,
      cpu: Math.max(0, 3.1 + Math.sin(index / 9) * 0.6 + (index % 5) * 0.05 - (index < 6 ? 3 : 0)),
      memory_bytes: Math.min(11.2, 1 + index * 0.2) * 1024 ** 3, gpu: [],
    });
  }
  return { samples: list, summary: { cpu_mean: 2.9, cpu_max: 3.9, memory_max_bytes: 11.2 * 1024 ** 3 } };
}

function act(job, action, response, body) {
  const previous = job.state;
  job.version += 1;
  if (action === "extend") job.expires_at = new Date(Date.parse(job.expires_at) + parseInt(body.duration, 10) * 3.6e6).toISOString();
  else {
    job.cancel_requested = true;
    setTimeout(() => {
      Object.assign(job, { state: "CANCELLED", reason: "cancelled", ended_at: new Date().toISOString(), actions: ["resubmit"], message: "Stopped by mira." });
      job.version += 1;
      broadcast("job.state", job, previous);
    }, 900);
  }
  broadcast("job.changed", job, previous);
  json(response, action === "extend" ? 200 : 202, job);
}

function advance(job) {
  const steps = [
    ["QUEUED", "submitted_at", 400],
    ["STARTING", "allocated_at", 2600],
    ["RUNNING", "started_at", 800],
    ["READY", "ready_at", 1500],
  ].slice(0, job.type === "session" ? 4 : 3);
  let at = 0;
  steps.forEach(([state, field, ms], index) => {
    at += ms;
    setTimeout(() => {
      const previous = job.state;
      Object.assign(job, makeJob({ ...job, state, [field]: new Date().toISOString(), reached: index + 1, nodes: index > 0 ? ["node03"] : [] }), { id: job.id });
      job.version += 1;
      job.actions = job.type === "job" ? ["cancel"] : state === "READY" ? ["open", "extend", "stop"] : ["stop"];
      if (state === "RUNNING") job.expires_at = ago(-4 * 3600);
      broadcast("job.state", job, previous);
    }, at);
  });
}

function api(request, response, url, body) {
  const path = url.pathname.replace("/api/v1", "");
  const method = request.method;
  const [, noun, id, verb] = path.split("/");
  if (path === "/auth/login" || path === "/auth/login-link") {
    if (body.password === "wrong") {
      failures += 1;
      if (failures > 2) return problem(response, 429, "rate_limited", "Too many failed logins.", [], { "Retry-After": "45" });
      return problem(response, 401, "not_authenticated", "The user name or the password is wrong.");
    }
    loggedIn = true;
    return json(response, 200, me());
  }
  if (path === "/auth/logout") {
    loggedIn = false;
    return json(response, 204);
  }
  if (!loggedIn) return problem(response, 401, "not_authenticated", "Nobody is logged in.");
  if (path === "/me") return json(response, 200, me());
  if (path === "/events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(`id: ${eventId}\nevent: hello\ndata: {"last_event_id": ${eventId}}\n\n`);
    streams.add(response);
    return response.on("close", () => streams.delete(response));
  }
  if (path === "/templates") {
    return json(response, 200, { items: templates, problems: MODE === "full" ? [{ path: "jobtemplates/mine.yaml", line: 12, reason: "default 20 is above maximum 10" }] : [] });
  }
  if (path === "/cluster/nodes") return json(response, 200, { items: MODE === "empty" ? [] : nodes, as_of: ago(2), stale: false, scheduler: schedulerStatus });
  if (path === "/cluster/partitions") return json(response, 200, { items: partitions, qos: ["normal", "short"], reservations: [], as_of: ago(2), stale: false });
  if (path === "/jobs:plan") {
    if (body.resources.cpu > 16) {
      return problem(response, 422, "invalid_input", "The job cannot be.", [
        { field: "resources.cpu", message: "no node has so many CPUs", value: String(body.resources.cpu), allowed: "1 to 16" },
      ]);
    }
    return json(response, 200, plan(body));
  }
  if (path === "/tokens") {
    if (method === "POST") return json(response, 201, { ...tokens[0], ...body, id: `t${Date.now()}`, token: "aitne_pat_9f8e7d6c5b4a39281706f5e4d3c2b1a0" });
    return json(response, 200, { items: MODE === "empty" ? [] : tokens });
  }
  if (noun === "tokens") return json(response, 204);
  if (path === "/projects") return json(response, 200, { items: MODE === "empty" ? [] : projects });
  if (path.endsWith("/limits")) return json(response, 200, projectLimits);
  if (path.endsWith("/usage")) {
    if (MODE === "silent") return problem(response, 501, "not_supported", "The scheduler local keeps no accounts. Projects and their members work; limits and the record of usage need Slurm with slurmdbd.");
    return json(response, 200, { ...projectUsage, month: url.searchParams.get("month") });
  }
  if (path === "/users") return json(response, 200, { items: users, next_cursor: null, total: users.length });
  if (verb === "queue") return json(response, 200, { place: { place: 3, waiting: 12, partition: "gpu" } });
  if (verb === "record") return json(response, 200, { record: { JobState: "PENDING", Reason: "Priority", Priority: 4294901741, TRES: "cpu=16,mem=128G,node=1,gres/gpu=4" } });
  if (noun === "jobs" || noun === "sessions") {
    if (id === undefined) {
      if (method === "POST") {
        const job = makeJob({ type: body.type, template: body.template, name: body.name ?? "JupyterLab", state: "PENDING_SUBMIT", reached: 0, created_at: new Date().toISOString(), actions: body.type === "job" ? ["cancel"] : ["stop"] });
        jobs.unshift(job);
        if (job.type === "session") sessions.unshift(job);
        advance(job);
        return json(response, 201, job);
      }
      if (url.searchParams.get("array_job_id")) return json(response, 200, page(tasks, url.searchParams));
      return json(response, 200, page(noun === "sessions" ? shownSessions : shownJobs, url.searchParams));
    }
    const job = [...jobs, ...sessions, ...tasks].find((entry) => entry.id === id);
    if (!job) return problem(response, 404, "not_found", `There is no job ${id} that you may see.`);
    if (verb === undefined) return json(response, 200, job);
    if (verb === "logs") return log(response, job);
    if (verb === "script") return response.writeHead(200, { "Content-Type": "text/plain" }).end(script);
    if (verb === "metrics") return json(response, 200, samples(job));
    if (verb === "events") {
      const items = ["PENDING_SUBMIT", "SUBMITTING", "QUEUED", "STARTING", "RUNNING"].map((state, index) => ({
        id: index, time: ago(600 - index * 2), kind: index === 0 ? "job.created" : "job.state", job_id: id, owner: job.owner, project: job.project,
        data: { state, message: state === "QUEUED" ? "It waits for 2 GPUs of type a100." : null, attempt: 1 },
      }));
      return json(response, 200, { items });
    }
    if (verb === "open") return json(response, 200, { url: job.url ?? "about:blank" });
    return act(job, verb, response, body);
  }
  return problem(response, 404, "not_found", "There is no such path.");
}

function file(response, path) {
  const wanted = join(DIST, normalize(path));
  const found = existsSync(wanted) && statSync(wanted).isFile() ? wanted : join(DIST, "index.html");
  response.writeHead(200, { "Content-Type": TYPES[extname(found)] ?? "application/octet-stream", "Content-Security-Policy": CSP });
  createReadStream(found).pipe(response);
}

createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  if (!url.pathname.startsWith("/api/")) return file(response, url.pathname);
  if (MODE === "down" && url.pathname !== "/api/v1/me") return problem(response, 503, "store_unavailable", "The database does not answer. Try again in a moment.");
  let text = "";
  request.on("data", (chunk) => (text += chunk));
  request.on("end", () => api(request, response, url, text === "" ? {} : JSON.parse(text)));
  return undefined;
}).listen(Number(process.argv[2] ?? 26001), "127.0.0.1");

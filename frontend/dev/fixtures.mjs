// Data for dev/mock.mjs: one of each thing that the pages have to show well.

const NOW = Date.now();
export const ago = (seconds) => new Date(NOW - seconds * 1000).toISOString();
const GIB = 1024 ** 3;
let serial = 0;

const TITLES = {
  job: ["submitted", "queued", "starting", "running", "done"],
  session: ["submitted", "queued", "starting", "connecting", "ready"],
};

/** The stages as the platform draws them; `reached` is the index of the one it is in. */
function stages(job, reached, status) {
  const starts = [job.created_at, job.submitted_at, job.allocated_at, job.started_at, job.ready_at ?? job.ended_at];
  return TITLES[job.type].map((key, index) => ({
    key,
    title: key[0].toUpperCase() + key.slice(1),
    status: index < reached ? "done" : index === reached ? status : job.ended_at ? "skipped" : "waiting",
    started_at: index <= reached ? starts[index] : null,
    ended_at: index < reached ? starts[index + 1] : index === reached ? job.ended_at : null,
    detail: index === reached ? job.message : null,
  }));
}

export function makeJob(fields) {
  serial += 1;
  const job = {
    id: `0190a${String(serial).padStart(3, "0")}-4c1d-7d2e-9f00-0a1b2c3d4e5f`,
    type: "job",
    name: "job",
    owner: "mira",
    project: "vision",
    cluster: "local",
    template: "batch",
    template_version: "1.0.0",
    parameters: { command: "python train.py --epochs 10", folder: "~/edsr" },
    image: "bare",
    commands: ['exec bash -c "$AITNE_PARAM_COMMAND"'],
    env: { OMP_NUM_THREADS: "4" },
    workdir: "~/edsr",
    resources: { nodes: 1, cpu: 4, memory_bytes: 16 * GIB, gpu: { count: 0, type: null }, gres: {} },
    max_duration_s: 4 * 3600,
    array: null,
    after: [],
    retry: { max: 0, on: [] },
    state: "RUNNING",
    reason: null,
    message: null,
    attempt: 1,
    restart_count: 0,
    exit_code: null,
    signal: null,
    nodes: [],
    account: null,
    partition: null,
    priority: null,
    slurm: { partition: null, qos: null, account: null, constraint: null, reservation: null, exclusive: false, requeue: null, signal: null, extra: [] },
    array_job_id: null,
    array_task_id: null,
    scheduler_id: String(4100 + serial),
    created_at: ago(60),
    submitted_at: null,
    allocated_at: null,
    started_at: null,
    ready_at: null,
    ended_at: null,
    expires_at: null,
    expected_start_at: null,
    url: null,
    cancel_requested: false,
    version: 3,
    actions: [],
    ...fields,
  };
  const reached = fields.reached ?? 3;
  const ok = job.state === "COMPLETED";
  const failed = job.ended_at !== null && !ok && job.state !== "CANCELLED";
  job.stages = stages(job, reached, failed ? "failed" : ok ? "done" : job.state === "CANCELLED" ? "skipped" : "current");
  delete job.reached;
  return job;
}

const session = (fields) =>
  makeJob({ type: "session", template: "jupyterlab", parameters: { folder: "~" }, commands: [], ...fields });

export const sessions = [
  session({
    name: "JupyterLab", state: "STARTING", reached: 2, nodes: ["node02"], actions: ["stop"],
    created_at: ago(9), submitted_at: ago(8.6), allocated_at: ago(4.2),
  }),
  session({
    name: "Diffusion notebooks", state: "READY", reached: 4, nodes: ["node01"],
    resources: { nodes: 1, cpu: 8, memory_bytes: 32 * GIB, gpu: { count: 1, type: "a100" }, gres: {} },
    actions: ["open", "extend", "stop"], url: "http://127.0.0.1:26001/user/mira/s-1/lab",
    created_at: ago(4210), submitted_at: ago(4209.5), allocated_at: ago(4207), started_at: ago(4206), ready_at: ago(4204.4),
    expires_at: ago(-490),
  }),
  session({
    name: "Big model playground", state: "QUEUED", reached: 1, actions: ["stop"],
    resources: { nodes: 1, cpu: 16, memory_bytes: 128 * GIB, gpu: { count: 4, type: "a100" }, gres: {} },
    created_at: ago(312), submitted_at: ago(311.4), expected_start_at: ago(-1500),
    message: "It waits for 4 GPUs of type a100: 3 are free, and job 4102 ahead of it needs 2.", partition: "gpu", priority: 4294901741, scheduler_id: "4107",
  }),
  session({
    name: "Lab with a very long name that somebody pasted from a paper title, to see what the card does",
    state: "FAILED", reason: "start_failed", reached: 3, nodes: ["node03"], actions: ["resubmit"],
    created_at: ago(7300), submitted_at: ago(7299), allocated_at: ago(7290), started_at: ago(7288), ended_at: ago(7168),
    message: "JupyterLab did not answer within 120 s of its start. The log's last line: ImportError: libcudart.so.12: cannot open shared object file. Choose another image, or ask an administrator.",
  }),
];

const longLog = makeJob({
  name: "edsr-x2", state: "RUNNING", nodes: ["node01"], actions: ["cancel"], template: "python-train",
  resources: { nodes: 1, cpu: 4, memory_bytes: 16 * GIB, gpu: { count: 2, type: "a100" }, gres: {} },
  created_at: ago(610), submitted_at: ago(609.6), allocated_at: ago(603), started_at: ago(602), expires_at: ago(-13800),
});

const array = makeJob({
  name: "sweep learning rates", array: "0-11%4", state: "RUNNING", reached: 3, actions: ["cancel"],
  created_at: ago(900), submitted_at: ago(899), allocated_at: ago(897), started_at: ago(896),
});

export const tasks = Array.from({ length: 12 }, (_, index) =>
  makeJob({
    name: array.name, array_job_id: array.id, array_task_id: index, nodes: index < 8 ? ["node02"] : [],
    state: index < 4 ? "COMPLETED" : index === 5 ? "OUT_OF_MEMORY" : index < 8 ? "RUNNING" : "QUEUED",
    reached: index < 4 ? 4 : index < 8 ? 3 : 1, exit_code: index < 4 ? 0 : null,
    created_at: ago(900), submitted_at: ago(899), allocated_at: index < 8 ? ago(890 - index) : null,
    started_at: index < 8 ? ago(889 - index) : null, ended_at: index < 4 ? ago(300 - index * 20) : index === 5 ? ago(200) : null,
    actions: index < 4 ? ["resubmit"] : ["cancel"],
  }),
);

const ENDS = [
  ["COMPLETED", "completed", 0, null],
  ["FAILED", "failed", 1, "The program ended with exit code 1."],
  ["OUT_OF_MEMORY", "out_of_memory", 137, "It used more than its 16 GB of memory; ask for more, or use smaller batches."],
  ["CANCELLED", "cancelled", null, "Cancelled by mira."],
  ["TIMED_OUT", "timed_out", null, "Its time limit of 4 h was up."],
  ["COMPLETED", "completed", 0, null],
  ["LOST", "lost", null, "The scheduler no longer knows it, and nothing of it runs."],
];

export const jobs = [
  ...sessions,
  longLog,
  array,
  makeJob({
    name: "digits", state: "QUEUED", reached: 1, actions: ["cancel"], created_at: ago(42), submitted_at: ago(41),
    message: "It waits for 4 CPUs on one node; 2 are free.",
  }),
  ...Array.from({ length: 130 }, (_, index) => {
    const [state, reason, exit, message] = ENDS[index % ENDS.length];
    const begun = 4000 + index * 2711;
    return makeJob({
      name: ["train-resnet", "eval", "preprocess 'quoted' $(data)", "tokenize 🦉 corpus", "fit"][index % 5] + `-${index}`,
      owner: index % 6 === 0 ? "anders" : "mira", state, reason, exit_code: exit, message,
      reached: state === "COMPLETED" ? 4 : 3, nodes: [`node0${(index % 3) + 1}`], actions: ["resubmit"],
      created_at: ago(begun), submitted_at: ago(begun - 1), allocated_at: ago(begun - 5), started_at: ago(begun - 6),
      ended_at: ago(begun - 6 - ((index * 379) % 3900)),
    });
  }),
];

/** MOCK_NODES=1024 adds so many, for a look at a large cluster. */
const STATES = ["idle", "mixed", "mixed", "allocated", "allocated", "allocated", "draining", "down"];
const many = Array.from({ length: Number(process.env.MOCK_NODES ?? 0) }, (_, index) => {
  const state = STATES[(index * 7) % 31 % STATES.length];
  const used = state === "idle" || state === "down" ? 0 : state === "mixed" ? 1 + (index % 3) : 4;
  return {
    name: `c${String(index + 1).padStart(4, "0")}`, state, reason: state === "down" ? "Not responding" : null, cpu_total: 64, cpu_used: used * 16,
    memory_total_bytes: 512 * GIB, memory_used_bytes: used * 64 * GIB, gpus: [{ type: "h200", total: 4, used }], partitions: ["large"], features: ["nvlink"],
  };
});

export const nodes = [
  { name: "node01", state: "mixed", reason: null, cpu_total: 32, cpu_used: 12, memory_total_bytes: 256 * GIB, memory_used_bytes: 48 * GIB, gpus: [{ type: "a100", total: 4, used: 3 }] },
  { name: "node02", state: "allocated", reason: null, cpu_total: 32, cpu_used: 32, memory_total_bytes: 256 * GIB, memory_used_bytes: 201 * GIB, gpus: [{ type: "a100", total: 4, used: 2 }] },
  { name: "node03", state: "idle", reason: null, cpu_total: 32, cpu_used: 0, memory_total_bytes: 128 * GIB, memory_used_bytes: 0, gpus: [] },
  { name: "node04", state: "drained", reason: "Fan replaced on Monday", cpu_total: 32, cpu_used: 0, memory_total_bytes: 128 * GIB, memory_used_bytes: 0, gpus: [] },
  ...many,
].map((node) => ({
  cluster: "local", seen_at: ago(2), gres: [], features: [], partitions: ["gpu"], address: null, scheduler_state: null, ...node,
}));

const partition = (fields) => ({
  up: true, default: false, nodes: "node[01-04]", node_count: 4, states: { idle: 1, mixed: 3 }, cpu_total: 128, cpu_used: 44,
  gpus: [{ type: "a100", total: 8, used: 5, free: 3 }], features: [], max_time_s: null, default_time_s: 3600, max_nodes: null,
  allow_accounts: null, allow_qos: null, ...fields,
});
export const partitions = [partition({ name: "gpu", default: true }), partition({ name: "debug", nodes: "node01", node_count: 1, max_time_s: 1800 })];

const parameter = (fields) => ({
  description: "", default: null, minimum: null, maximum: null, choices: [], pattern: null, max_length: 4096, ...fields,
});
const resources = (fields) => ({
  nodes: { default: 1, min: 1, max: 1 },
  cpu: { default: 1, min: 1, max: 256 },
  memory: { default: 2 * GIB, min: GIB / 2, max: null },
  gpu: { default: { count: 0, type: null }, max: 16 },
  max_duration: { default: 4 * 3600, max: null },
  ...fields,
});
const template = (fields) => ({
  version: "1.0.0", image: "bare", env: {}, commands: [], apps: [], workdir_from: "folder", resources: resources({}), ...fields,
});

export const templates = [
  template({
    name: "batch", title: "Batch job", icon: "terminal", type: "job", description: "Shell commands that run by themselves and end.",
    resources: resources({ nodes: { default: 1, min: 1, max: 64 } }),
    parameters: [
      parameter({ name: "command", type: "text", title: "Commands", description: 'What bash runs. Begin with "set -e" to stop at the first failure.' }),
      parameter({ name: "folder", type: "path", title: "Working folder", default: "~", description: "Where the commands start; ~ is your home." }),
    ],
  }),
  template({
    name: "jupyterlab", title: "JupyterLab", icon: "notebook", type: "session", description: "Notebooks, terminals and an editor in the browser, on a node of the cluster.",
    parameters: [parameter({ name: "folder", type: "path", title: "Start folder", default: "~", description: "The folder that JupyterLab opens." })],
  }),
  template({
    name: "python-train", title: "Python training", icon: "brain", type: "job", description: "A Python script that trains a model, with epochs, learning rate and seed.",
    parameters: [
      parameter({ name: "script", type: "path", title: "Script", description: "The Python file, from the working folder or absolute." }),
      parameter({ name: "epochs", type: "integer", title: "Epochs", default: 10, minimum: 1, maximum: 100000 }),
      parameter({ name: "learning_rate", type: "number", title: "Learning rate", default: 0.001, minimum: 0, maximum: 100 }),
      parameter({ name: "precision", type: "choice", title: "Precision", default: "bf16", choices: ["fp32", "bf16", "fp16"] }),
      parameter({ name: "options", type: "boolean", title: "Pass as options", default: true, description: "Give the script --epochs and --learning-rate." }),
    ],
  }),
];

export const users = [
  { name: "mira", display_name: "Mira Solheim", role: "admin", default_project: "vision", disabled: false, created_at: ago(9e6) },
  { name: "anders", display_name: "Anders Vik", role: "user", default_project: "speech", disabled: false, created_at: ago(4e6) },
  { name: "guest", display_name: "", role: "user", default_project: "guest", disabled: true, created_at: ago(1e6) },
];

export const tokens = [
  { id: "t1", owner: "mira", name: "laptop", scopes: ["read", "write"], created_at: ago(9e5), expires_at: ago(-2e6), last_used_at: ago(400) },
  { id: "t2", owner: "mira", name: "nightly sweep", scopes: ["read"], created_at: ago(3e5), expires_at: null, last_used_at: null },
];

export const script = `#!/bin/bash
#SBATCH --job-name=0190a001-4c1d-7d2e-9f00-0a1b2c3d4e5f
#SBATCH --nodes=1 --cpus-per-task=1 --mem=2048M --time=0-04:00:00
set -euo pipefail
export AITNE_JOB_ID=0190a001-4c1d-7d2e-9f00-0a1b2c3d4e5f
export AITNE_ATTEMPT=1
cd "$AITNE_JOB_DIR"
exec "$AITNE_PYTHON" -m aitne.agent "$AITNE_JOB_DIR"
`;

const unlimited = {
  max_gpus: null, max_gpus_by_type: {}, max_cpus: null, max_memory_bytes: null, max_nodes: null,
  max_jobs: null, max_submitted: null, max_wall_s: null, gpu_hours: null, qos: [],
};
export const projects = [
  { name: "speech", title: "", members: ["mira"], created_at: ago(86_400 * 30) },
  { name: "vision", title: "Computer vision", members: ["jonas", "mira", "tove"], created_at: ago(86_400 * 90) },
];
export const projectLimits = {
  project: "vision",
  limits: { ...unlimited, max_gpus: 8, max_gpus_by_type: { h200: 6 }, max_jobs: 20, max_wall_s: 2 * 86_400, max_memory_bytes: 512 * 1024 ** 3 },
  members: [
    { project: "vision", user: "jonas", limits: { ...unlimited, max_gpus: 4 } },
    { project: "vision", user: "mira", limits: unlimited },
    { project: "vision", user: "tove", limits: unlimited },
  ],
  use: [
    { limit: "max_gpus", used: 6, most: 8, by: { mira: 4, jonas: 2 }, summary: "project vision: 6 of 8 GPUs in use by mira 4, jonas 2" },
    { limit: "max_gpus_by_type.h200", used: 6, most: 6, by: { mira: 4, jonas: 2 }, summary: null },
    { limit: "max_memory_bytes", used: 96 * 1024 ** 3, most: 512 * 1024 ** 3, by: { mira: 64 * 1024 ** 3, jonas: 32 * 1024 ** 3 }, summary: null },
    { limit: "max_jobs", used: 3, most: 64, by: { mira: 2, jonas: 1 }, summary: null },
    { limit: "max_cpus", used: 24, most: null, by: { mira: 16, jonas: 8 }, summary: null },
  ],
  as_of: ago(4),
};
export const projectUsage = {
  month: "2026-03", starts_at: ago(86_400 * 20), ends_at: ago(-86_400 * 10), as_of: ago(4),
  rows: [
    { project: "vision", user: "jonas", jobs: 12, cpu_hours: 310.25, gpu_hours: 77.5, gpu_hours_by_type: { h200: 77.5 } },
    { project: "vision", user: "mira", jobs: 141, cpu_hours: 2210.5, gpu_hours: 1043.75, gpu_hours_by_type: { h200: 1043.75 } },
  ],
};

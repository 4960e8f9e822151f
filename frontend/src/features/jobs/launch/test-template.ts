/** A template and a parameter with all fields, for tests: a new field needs a value here only. */
import type { Parameter, Template } from "@/api/types";

export const PARAMETER: Parameter = { name: "script", type: "path", title: "Script", description: "", default: null, minimum: null, maximum: null, choices: [], pattern: null, max_length: 100 };

export const TEMPLATE: Template = {
  name: "train",
  version: "1.0.0",
  title: "Train",
  description: "",
  icon: "brain",
  type: "job",
  image: "bare",
  parameters: [],
  resources: {
    nodes: { default: 1, min: 1, max: 8 },
    cpu: { default: 1, min: 1, max: 256 },
    memory: { default: 2 * 1024 ** 3, min: 1024 ** 3, max: null },
    gpu: { default: { count: 0, type: null }, max: 16 },
    max_duration: { default: 14_400, max: 86_400 },
    inactivity_duration: { default: null, max: null },
  },
  env: {},
  commands: ["x"],
  apps: [],
  distributed: null,
  workdir_from: null,
};

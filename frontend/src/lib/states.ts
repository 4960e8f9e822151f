/** Labels and tones of job states. */
import i18next from "i18next";
import type { JobState } from "@/api/types";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";

export type Tone = "neutral" | "waiting" | "active" | "good" | "bad" | "warn";

interface StateLook {
  label: string;
  tone: Tone;
  /** Whether the badge's dot pulses: the state will change by itself. */
  pulse: boolean;
}

const LOOKS: Record<JobState, StateLook> = {
  PENDING_SUBMIT: { label: msg("Submitting"), tone: "waiting", pulse: true },
  SUBMITTING: { label: msg("Submitting"), tone: "waiting", pulse: true },
  UNCERTAIN: { label: msg("Checking"), tone: "warn", pulse: true },
  QUEUED: { label: msg("Queued"), tone: "waiting", pulse: false },
  STARTING: { label: msg("Starting"), tone: "active", pulse: true },
  RUNNING: { label: msg("Running"), tone: "active", pulse: true },
  READY: { label: msg("Ready"), tone: "good", pulse: false },
  SUSPENDED: { label: msg("Suspended"), tone: "warn", pulse: false },
  COMPLETING: { label: msg("Finishing"), tone: "active", pulse: true },
  COMPLETED: { label: msg("Completed"), tone: "good", pulse: false },
  FAILED: { label: msg("Failed"), tone: "bad", pulse: false },
  CANCELLED: { label: msg("Cancelled"), tone: "neutral", pulse: false },
  TIMED_OUT: { label: msg("Time limit"), tone: "warn", pulse: false },
  OUT_OF_MEMORY: { label: msg("Out of memory"), tone: "bad", pulse: false },
  NODE_FAILED: { label: msg("Node failed"), tone: "bad", pulse: false },
  PREEMPTED: { label: msg("Preempted"), tone: "warn", pulse: false },
  LOST: { label: msg("Lost"), tone: "bad", pulse: false },
  UNKNOWN: { label: msg("Unknown"), tone: "warn", pulse: false },
};

const TERMINAL = new Set<JobState>([
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "TIMED_OUT",
  "OUT_OF_MEMORY",
  "NODE_FAILED",
  "PREEMPTED",
  "LOST",
]);

const ALLOCATED = new Set<JobState>(["STARTING", "RUNNING", "READY", "SUSPENDED", "COMPLETING"]);

export function isTerminal(state: JobState): boolean {
  return TERMINAL.has(state);
}

/** Whether the job has an allocation, and so a growing log and measured usage. */
export function isActive(state: JobState): boolean {
  return ALLOCATED.has(state);
}

export function isFailure(state: JobState): boolean {
  return isTerminal(state) && state !== "COMPLETED" && state !== "CANCELLED";
}

/** Label and tone of a state; sessions have other labels for some states. */
export function lookOf(
  state: JobState,
  options: { session?: boolean; cancelRequested?: boolean } = {},
): StateLook {
  const look = known(LOOKS, state, { label: state, tone: "neutral", pulse: false });
  if (options.cancelRequested && !isTerminal(state)) {
    return { label: i18next.t(options.session ? "Stopping" : "Cancelling"), tone: "neutral", pulse: true };
  }
  if (options.session) {
    if (state === "RUNNING") return { ...look, label: i18next.t("Connecting") };
    if (state === "CANCELLED" || state === "COMPLETED") return { ...look, label: i18next.t("Stopped"), tone: "neutral" };
  }
  return { ...look, label: i18next.t(look.label) };
}

/** The state groups of the jobs table's filter. */
export const STATE_GROUPS = [
  { value: "waiting", label: msg("Pending"), states: ["PENDING_SUBMIT", "SUBMITTING", "UNCERTAIN", "QUEUED"] },
  {
    value: "running",
    label: msg("Running"),
    states: ["STARTING", "RUNNING", "READY", "SUSPENDED", "COMPLETING", "UNKNOWN"],
  },
  { value: "completed", label: msg("Completed"), states: ["COMPLETED"] },
  {
    value: "failed",
    label: msg("Failed"),
    states: ["FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "NODE_FAILED", "PREEMPTED", "LOST"],
  },
  { value: "cancelled", label: msg("Cancelled"), states: ["CANCELLED"] },
] as const satisfies readonly { value: string; label: string; states: readonly JobState[] }[];

export type StateGroup = (typeof STATE_GROUPS)[number]["value"];

export function statesOfGroup(group: StateGroup | undefined): readonly JobState[] {
  return STATE_GROUPS.find((entry) => entry.value === group)?.states ?? [];
}

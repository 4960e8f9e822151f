/** The tabs of a job's page, as in its URL. */
export const JOB_TABS = ["notebook", "log", "sweep", "tasks", "ranks", "placement", "communication", "metrics", "snapshot", "script", "history"] as const;
export type JobTab = (typeof JOB_TABS)[number];

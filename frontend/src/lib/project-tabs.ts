/** The parts of a project's page, as its address names them. */
export const PROJECT_TABS = ["overview", "members", "usage", "data", "settings"] as const;
export type ProjectTab = (typeof PROJECT_TABS)[number];

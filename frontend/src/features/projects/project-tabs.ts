/** The tabs of a project's page, as in its URL. */
export const PROJECT_TABS = ["overview", "members", "usage", "data", "settings"] as const;
export type ProjectTab = (typeof PROJECT_TABS)[number];

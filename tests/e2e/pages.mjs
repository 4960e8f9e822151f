// The portal's pages: what the pictures, the test of accessibility and the timings look at. A page of its own in the portal is
// one line here, and so is a dialog or a bad day of one. `ids` are those of tests/support/filled.py; `prepare` brings a page to
// what is worth a look; `answers` says what becomes of everything that it asks for (look.mjs); `print` is how it is on paper.
export const WIDTHS = [[1440, 900], [390, 844]];
export const SCHEMES = ["light", "dark"];

const wait = (page) => page.waitForTimeout(400);
/** Press what opens a dialog, and see it open. */
const open = (...names) => async (page) => {
  for (const name of names) await page.getByTestId(name).first().click();
  await page.getByRole("dialog").first().waitFor();
  await wait(page);
};
const dialog = (name, path, ...pressed) => ({ name, path, fold: true, prepare: open(...pressed) });
/** What a page is like that has nothing, that waits, and that gets no answer. */
const BAD_DAYS = ["empty", "never", "fails"];
const LISTS = { home: "/", jobs: "/jobs", cluster: "/cluster", notifications: "/notifications", project: "/projects/vision?tab=usage", admin: "/admin", "admin-load": "/admin/load" };

export const pages = (ids) => [
  { name: "home", path: "/" },
  { name: "launch", path: "/?launch=jupyterlab", fold: true },
  { name: "jobs", path: "/jobs?all=true" },
  { name: "no-jobs", path: "/jobs?q=nothing-is-called-that" },
  { name: "job-running", path: `/jobs/${ids.running}` },
  { name: "job-waiting", path: `/jobs/${ids.waiting}` },
  { name: "job-failed", path: `/jobs/${ids.failed}` },
  { name: "job-array", path: `/jobs/${ids.array}?tab=tasks` },
  { name: "job-script", path: `/jobs/${ids.running}?tab=script` },
  { name: "job-history", path: `/jobs/${ids.finished}?tab=history` },
  { name: "session", path: `/jobs/${ids.session}` },
  { name: "cluster", path: "/cluster" },
  { name: "node", path: "/cluster/nodes/node04" },
  { name: "help", path: "/help#waiting" },
  { name: "images", path: "/images" },
  { name: "datasets", path: "/datasets" },
  { name: "projects", path: "/projects" },
  { name: "project", path: "/projects/vision" },
  { name: "project-report", path: "/projects/vision/report" },
  { name: "compose", path: "/compose" },
  { name: "device", path: "/device?code=BCD-FGH-JKL" },
  { name: "compare", path: `/compare?runs=${ids.finished},${ids.other}` },
  { name: "sweep", path: `/jobs/${ids.sweep}?tab=sweep` },
  { name: "job-metrics", path: `/jobs/${ids.finished}?tab=metrics` },
  { name: "job-snapshot", path: `/jobs/${ids.finished}?tab=snapshot` },
  { name: "notifications", path: "/notifications" },
  ...["profile", "security", "sign-ins", "tokens", "secrets", "notifications"].map((tab) => ({ name: `account-${tab}`, path: `/account/${tab}` })),
  { name: "admin", path: "/admin" },
  { name: "admin-load", path: "/admin/load" },
  ...["jobs", "nodes", "users", "announcements", "catalogue", "audit", "settings"].map((page) => ({ name: `admin-${page}`, path: `/admin/${page}` })),
  { name: "nowhere", path: "/nowhere" },
  {
    name: "palette", path: "/", fold: true,
    prepare: async (page) => {
      await page.keyboard.press("Control+k");
      await page.getByTestId("palette").fill("e");
      await page.waitForTimeout(900);
    },
  },
  { name: "user-menu", path: "/", fold: true, prepare: async (page) => { await page.getByTestId("user-menu").click(); await wait(page); } },
  { name: "keyboard", path: "/", fold: true, prepare: async (page) => { await page.locator("main").focus(); await page.keyboard.press("?"); await page.getByRole("dialog").waitFor(); await wait(page); } },
  ...["members", "usage", "data", "settings"].map((tab) => ({ name: `project-${tab}`, path: `/projects/vision?tab=${tab}` })),
  { name: "report-printed", path: "/projects/vision/report", print: true },
  { name: "dataset", path: "/datasets/div2k/1" },
  { name: "terminal", path: `/jobs/${ids.running}/terminal`, fold: true, prepare: (page) => page.waitForTimeout(2_500) },
  { name: "tasks-unfolded", path: "/jobs?all=true&q=evaluate", prepare: async (page) => { await page.getByTestId("job-row").first().getByRole("button").click(); await page.waitForTimeout(1_000); } },
  { name: "jobs-chosen", path: "/jobs?all=true", prepare: async (page) => { for (const box of [0, 1]) await page.getByTestId("job-row").nth(box).getByRole("checkbox").check(); } },
  dialog("rerun", `/jobs/${ids.finished}`, "job-resubmit"),
  dialog("cancel", `/jobs/${ids.waiting}`, "job-cancel"),
  dialog("new-project", "/projects", "project-new"),
  dialog("invite", "/projects/vision?tab=members", "invite"),
  dialog("new-token", "/account/tokens", "token-new"),
  dialog("new-secret", "/account/secrets", "secret-new"),
  dialog("new-user", "/admin/users", "user-new"),
  dialog("user", "/admin/users", "user-manage"),
  dialog("new-announcement", "/admin/announcements", "announcement-new"),
  dialog("new-maintenance", "/admin/announcements", "maintenance-set"),
  { name: "bell", path: "/", fold: true, prepare: async (page) => { await page.getByTestId("bell").click(); await wait(page); } },
  { name: "login", path: "/login", anybody: true },
  { name: "login-refused", path: "/login?failed=no_account", anybody: true },
  { name: "invited", path: ids.invitation, anybody: true },
  { name: "reset", path: ids.reset, anybody: true },
  { name: "reset-without-link", path: "/reset", anybody: true },
  ...Object.entries(LISTS).flatMap(([name, path]) => BAD_DAYS.map((answers) => ({ name: `${name}-${answers}`, path, answers }))),
  { name: "not-loaded", path: "/", anybody: true, answers: "no files", prepare: (page) => page.getByText("reload the page").waitFor() },
  { name: "stale", path: "/", fold: true, answers: "no news", prepare: (page) => page.getByTestId("stale-banner").waitFor() },
];

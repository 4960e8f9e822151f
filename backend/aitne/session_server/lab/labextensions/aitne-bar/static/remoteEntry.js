// A bar at the top of JupyterLab: the way back to the portal, the time left, Extend, the memory and GPUs in use, the attached ranks,
// and the open notebook as a batch job. It asks the session's own server (aitne_session_bar.py). JupyterLab loads it as it is.
"use strict";

(() => {
  const REFRESH_MS = 60_000;
  const RECONNECT_MS = 15_000;
  const CHANGE_MS = 300;
  const CHECK_MS = 3_000;
  // As long as a platform needs to restart.
  const CHECKS = 20;
  const STALE_MS = 150_000;
  // JupyterHub answers so for a server that does not run, for a moment also after its own restart.
  const GONE = [404, 410, 424];
  const GONE_TIMES = 6;
  const TICK_MS = 1_000;
  const SOON_MS = 15 * 60_000;
  const GERMAN = {
    "Back to the portal": "Zurück zum Portal",
    "{time} left": "noch {time}",
    "Time limit reached": "Zeitlimit erreicht",
    "This session has ended.": "Diese Sitzung ist beendet.",
    "What is not saved can still be copied from this page.": "Was nicht gespeichert ist, lässt sich noch aus dieser Seite kopieren.",
    "This session is ending.": "Diese Sitzung wird beendet.",
    "The session has not answered for {time}.": "Die Sitzung antwortet seit {time} nicht.",
    "Continue": "Fortsetzen",
    "Extend by 1 h": "Um 1 h verlängern",
    "Memory {used} of {limit}": "Speicher {used} von {limit}",
    "GPU {share}": "GPU {share}",
    "Session": "Sitzung",
    "Not extended: {reason}": "Nicht verlängert: {reason}",
    "The platform does not answer.": "Die Plattform antwortet nicht.",
    "Attach ranks": "Ranks verbinden",
    "Attached ranks": "Verbundene Ranks",
    "{count} ranks": "{count} Ranks",
    "{count} rank": "{count} Rank",
    "{count} nodes": "{count} Knoten",
    "{count} node": "{count} Knoten",
    "waiting": "wartend",
    "starting": "startend",
    "ending": "endend",
    "Release": "Freigeben",
    "Release {ranks}? What they have in memory is lost.": "{ranks} freigeben? Was sie im Speicher haben, geht verloren.",
    "None. Ranks execute cells on several GPUs or nodes.": "Keine. Ranks führen Zellen auf mehreren GPUs oder Knoten aus.",
    "Ranks": "Ranks",
    "Nodes": "Knoten",
    "GPU of each rank": "GPU jedes Ranks",
    "a100 or 1": "a100 oder 1",
    "CPUs of each rank": "CPUs jedes Ranks",
    "Memory of each rank": "Speicher jedes Ranks",
    "Time limit": "Zeitlimit",
    "Release when idle for": "Freigabe nach Zeit ohne Arbeit",
    "Close": "Schließen",
    "Run as batch job": "Als Batch-Job ausführen",
    "GPUs on each node": "GPUs je Knoten",
    "It runs with the software, data and resources of this session.": "Es läuft mit Software, Daten und Ressourcen dieser Sitzung.",
    "Submitted as {name}.": "Als {name} eingereicht.",
    "Name": "Name",
    "Parameters, one on each line": "Parameter, einer je Zeile",
    "Defaults: {text}": "Vorgaben: {text}",
    "Ranks on each node": "Ranks je Knoten",
    "Open job": "Job öffnen",
  };
  const german = navigator.language.toLowerCase().startsWith("de");
  const t = (text, values = {}) => (german ? (GERMAN[text] ?? text) : text).replace(/\{(\w+)\}/g, (_, name) => values[name]);

  const duration = (ms) => {
    const minutes = Math.floor(ms / 60_000);
    if (minutes < 1) return `${Math.max(0, Math.floor(ms / 1000))} s`;
    if (minutes < 60) return `${minutes} min`;
    const hours = Math.floor(minutes / 60);
    return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
  };
  const gigabytes = (bytes) => `${(bytes / 1024 ** 3).toLocaleString(german ? "de" : "en", { maximumFractionDigits: 1 })} GB`;
  const percent = (share) => `${Math.round(share * 100)} %`;

  /** Why the platform refused a request: its sentence, and those about single fields. */
  const sentence = (body) => {
    const problems = (body.problems ?? []).map(({ field, message, allowed }) => `${field}: ${message}${allowed ? ` (${allowed})` : ""}`);
    return problems.length > 0 ? problems.join(" ") : (body.detail ?? body.message ?? t("The platform does not answer."));
  };

  const base = () => JSON.parse(document.getElementById("jupyter-config-data").textContent).baseUrl;
  const send = (path, method, fields) => {
    const token = /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1] ?? "";
    return fetch(`${base()}aitne/${path}`, { method, headers: { "X-XSRFToken": token }, body: fields === undefined ? undefined : JSON.stringify(fields) });
  };
  const ask = async (path, method, fields) => {
    const response = await send(path, method, fields);
    const body = await response.json().catch(() => undefined);
    // A login page is no answer of the session either.
    if (!response.ok || body === undefined) throw Object.assign(new Error(sentence(body ?? {})), { status: response.status });
    const date = Date.parse(response.headers.get("Date"));
    return { ...body, ahead: Number.isNaN(date) ? 0 : Date.now() - date };
  };

  /** Calls `changed` for each change of the session or its ranks, from wherever it comes, and when the stream breaks; it ends where the
   * platform refuses to tell. */
  const follow = async (changed) => {
    for (;;) {
      try {
        const response = await send("changes", "GET");
        if (response.status >= 400 && response.status < 500 && response.status !== 429) return changed();
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let part = await reader.read(); response.ok && !part.done; part = await reader.read()) if (part.value.trim() !== "") changed();
      } catch {
        // The connection broke: the next one begins with what changed meanwhile.
      }
      changed();
      await new Promise((over) => window.setTimeout(over, RECONNECT_MS));
    }
  };

  const STYLE = `
    #aitne-bar { display: flex; align-items: center; gap: 12px; flex: 0 0 auto; margin-left: auto; padding: 0 12px; white-space: nowrap;
      font-size: var(--jp-ui-font-size1); color: var(--jp-ui-font-color1); }
    #aitne-bar[hidden], #aitne-bar [hidden] { display: none; }
    #aitne-bar a { color: var(--jp-content-link-color); }
    #aitne-bar .soon { padding: 0 6px; border-radius: 4px; font-weight: 600; background: var(--jp-warn-color3); color: #000; }
    #aitne-bar button { padding: 2px 8px; border: 1px solid var(--jp-border-color1); border-radius: 4px; background: var(--jp-layout-color1);
      color: inherit; font: inherit; cursor: pointer; }
    #aitne-bar button:disabled { opacity: 0.6; cursor: default; }
    #aitne-bar dialog { width: min(460px, 90vw); padding: 18px 20px; border: 1px solid var(--jp-border-color1); border-radius: 8px;
      background: var(--jp-layout-color1); color: inherit; white-space: normal; }
    #aitne-bar dialog::backdrop { background: rgb(0 0 0 / 0.4); }
    #aitne-bar h2 { margin: 0 0 12px; font-size: var(--jp-ui-font-size2); }
    #aitne-bar ul { display: grid; gap: 8px; margin: 0 0 16px; padding: 0; list-style: none; }
    #aitne-bar li { display: grid; grid-template-columns: 1fr auto; gap: 2px 8px; align-items: center; }
    #aitne-bar li small { grid-column: 1 / -1; color: var(--jp-ui-font-color2); }
    #aitne-bar form { display: grid; grid-template-columns: 1fr 1fr; gap: 10px; }
    #aitne-bar form > .whole { grid-column: 1 / -1; margin: 0; }
    #aitne-bar label { display: grid; gap: 3px; align-content: end; }
    #aitne-bar input, #aitne-bar textarea { padding: 4px 6px; border: 1px solid var(--jp-border-color1); border-radius: 4px; background: var(--jp-layout-color0);
      color: inherit; font: inherit; }
    #aitne-bar label.whole { align-content: start; }
    #aitne-bar .buttons { display: flex; flex-wrap: wrap; gap: 8px 16px; align-items: center; justify-content: flex-end; }
    #aitne-bar .problem { color: var(--jp-error-color0); }
    @media (max-width: 900px) { #aitne-bar .use { display: none; } }
    @media (max-width: 700px) { #aitne-bar .batch, #aitne-bar .again[hidden] + .portal { display: none; } }`;

  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const counted = (count, one, many) => t(count === 1 ? one : many, { count });
  const ranksText = (count) => counted(count, "{count} rank", "{count} ranks");
  /** "4 ranks · 2 nodes · 14 min left", or why they do not run yet. */
  const groupText = (group, now) => {
    const shape = `${ranksText(group.ranks)} · ${counted(group.nodes, "{count} node", "{count} nodes")}`;
    if (group.cancel_requested) return `${shape} · ${t("ending")}`;
    if (group.state !== "RUNNING") return `${shape} · ${t(group.state === "STARTING" ? "starting" : "waiting")}`;
    const left = group.expires_at === null ? null : Date.parse(group.expires_at) - now;
    return left === null ? shape : `${shape} · ${left > 0 ? t("{time} left", { time: duration(left) }) : t("Time limit reached")}`;
  };

  /** A form in a dialog; `send` gets its fields that are not empty, and a promise that fails shows why. If it returns true, the form is
   * done: it cannot be sent again until `reset`. */
  const formDialog = (title, fields, action, send) => {
    const problem = make("p", { className: "problem whole" });
    problem.setAttribute("role", "alert");
    const above = make("div", { className: "whole" });
    const inputs = fields.map(({ label, rows, ...properties }) =>
      rows === undefined
        ? make("label", {}, t(label), make("input", { autocomplete: "off", ...properties }))
        : make("label", { className: "whole" }, t(label), make("textarea", { autocomplete: "off", rows, ...properties })),
    );
    const submit = make("button", { type: "submit", textContent: t(action) });
    const close = make("button", { type: "button", textContent: t("Close") });
    const form = make("form", {}, above, ...inputs, problem, make("div", { className: "buttons whole" }, close, submit));
    const dialog = make("dialog", {}, make("h2", { textContent: t(title) }), form);
    dialog.setAttribute("aria-label", t(title));
    // Sent again after a lost answer, the same key makes no second job.
    const newKey = () => `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
    let key = newKey();
    // JupyterLab's shortcuts are not meant for what is typed here.
    dialog.addEventListener("keydown", (event) => event.stopPropagation());
    close.addEventListener("click", () => dialog.close());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      problem.textContent = "";
      let done = false;
      const filled = [...form.elements].filter(({ name, value }) => name !== "" && value.trim() !== "");
      try {
        const values = Object.fromEntries(filled.map(({ name, type, value }) => [name, type === "number" ? Number(value) : value.trim()]));
        done = (await send({ ...values, key })) === true;
        key = newKey();
      } catch (error) {
        problem.textContent = error.message;
      }
      submit.disabled = false;
      show(!done);
      if (done) close.focus();
    });
    const show = (editable) => {
      for (const element of [...inputs, submit]) element.hidden = !editable;
    };
    const reset = (values) => {
      problem.textContent = "";
      show(true);
      for (const { name, value } of values) form.elements.namedItem(name).value = value;
    };
    return { dialog, above, problem, reset };
  };
  /** The lines of the notebook's cell with the tag `parameters`, which has their defaults. */
  const defaultsOf = (document) => {
    const cells = document?.model?.toJSON?.().cells ?? [];
    const { source = "" } = cells.find(({ metadata }) => metadata?.tags?.includes("parameters")) ?? {};
    return [source].flat().join("").split("\n").filter((line) => line.includes("=")).join("; ");
  };
  const number = (label, name, value) => ({ label, name, value, type: "number", min: 1, required: true });
  const text = (label, name, value = "") => ({ label, name, value, type: "text" });

  /** The bar in `node`; it draws the last status again each second, and asks for another when the session or its ranks change, and each
   * minute, for what is in use, while it is seen. `notebook` returns the document of the open notebook, or undefined. */
  const fill = (node, notebook) => {
    const part = (name, look) => {
      const element = document.createElement(name);
      element.className = look;
      node.append(element);
      return element;
    };
    node.setAttribute("role", "group");
    node.setAttribute("aria-label", t("Session"));
    const memory = part("span", "use");
    const gpu = part("span", "use");
    const ranks = part("button", "ranks");
    ranks.type = "button";
    const batch = part("button", "batch");
    batch.type = "button";
    batch.textContent = t("Run as batch job");
    const left = part("span", "left");
    const extend = part("button", "extend");
    extend.type = "button";
    extend.textContent = t("Extend by 1 h");
    const note = part("span", "note");
    note.setAttribute("role", "status");
    const link = (look, text) => {
      const element = part("a", look);
      element.textContent = t(text);
      element.target = "_blank";
      element.rel = "noreferrer";
      return element;
    };
    const again = link("again", "Continue");
    const portal = link("portal", "Back to the portal");
    // JupyterLab's own dialogs of what it cannot load any more would cover the bar.
    const stay = make("button", { type: "button", textContent: t("Close") });
    const links = [again, portal].map((shown) => [shown, shown.cloneNode(true)]);
    const over = make(
      "dialog",
      {},
      make("h2", { textContent: t("This session has ended.") }),
      make("p", { textContent: t("What is not saved can still be copied from this page.") }),
      make("div", { className: "buttons" }, stay, ...links.map(([, copy]) => copy).reverse()),
    );
    over.setAttribute("aria-label", t("This session has ended."));
    stay.addEventListener("click", () => over.close());

    let status;
    let askedAt = 0;
    let answeredAt = 0;
    let failures = 0;
    let gone = 0;
    let check;
    let ended = false;
    const now = () => Date.now() - status.ahead;
    const drawRanks = () => {
      ranks.hidden = status.ranks === undefined;
      const groups = status.ranks ?? [];
      ranks.textContent = groups.length === 0 ? t("Attach ranks") : groups.map((group) => groupText(group, now())).join("; ");
      batch.hidden = status.ranks === undefined || notebook() === undefined;
    };
    const draw = () => {
      node.hidden = status === undefined;
      if (status === undefined) return;
      const silent = Date.now() - answeredAt;
      const lives = !ended && !status.cancel_requested && silent < STALE_MS;
      again.hidden = !ended;
      again.href = status.portal_url;
      portal.href = ended ? new URL("/", status.portal_url).href : status.portal_url;
      if (!lives) {
        // What was in use and the time left are not shown without their age.
        for (const element of [memory, gpu, ranks, batch, extend]) element.hidden = true;
        left.hidden = false;
        left.classList.add("soon");
        for (const [shown, copy] of links) copy.href = shown.href;
        if (ended) left.textContent = t("This session has ended.");
        else if (status.cancel_requested) left.textContent = t("This session is ending.");
        else left.textContent = t("The session has not answered for {time}.", { time: duration(silent) });
        return;
      }
      drawRanks();
      memory.hidden = status.memory_bytes === null;
      memory.textContent = t("Memory {used} of {limit}", { used: gigabytes(status.memory_bytes ?? 0), limit: gigabytes(status.memory_limit_bytes) });
      gpu.hidden = status.gpu_utilization === null || status.gpus === 0;
      gpu.textContent = t("GPU {share}", { share: percent(status.gpu_utilization ?? 0) });
      const ms = status.expires_at === null ? null : Date.parse(status.expires_at) - now();
      left.hidden = extend.hidden = ms === null;
      if (ms === null) return;
      left.classList.toggle("soon", ms < SOON_MS);
      left.textContent = ms > 0 ? t("{time} left", { time: duration(ms) }) : t("Time limit reached");
    };
    const refresh = async () => {
      askedAt = Date.now();
      try {
        status = await ask("session", "GET");
        answeredAt = Date.now();
        failures = gone = 0;
        ended = false;
        over.close();
      } catch (error) {
        // Without an answer the last one stays for a while: the platform may only be restarted.
        failures += 1;
        gone = GONE.includes(error.status) ? gone + 1 : 0;
        const due = status !== undefined && (status.cancel_requested || (status.expires_at !== null && Date.parse(status.expires_at) < now()));
        const lived = !ended;
        ended ||= gone >= GONE_TIMES || (due && error.status !== undefined);
        if (ended && lived && status !== undefined) {
          for (const { dialog } of [attach, run]) dialog.close();
          over.showModal();
        }
      }
      window.clearTimeout(check);
      const unsure = gone > 0 || (failures > 0 && failures < CHECKS) || status?.cancel_requested;
      if (!ended && unsure) check = window.setTimeout(refresh, CHECK_MS);
      draw();
    };
    extend.addEventListener("click", async () => {
      extend.disabled = true;
      note.textContent = "";
      try {
        await ask("extend", "POST");
      } catch (error) {
        note.textContent = t("Not extended: {reason}", { reason: error.message });
      }
      await refresh();
      // The scheduler carries it out in a moment.
      window.setTimeout(refresh, 5_000);
      extend.disabled = false;
    });
    // The platform carries a change out in a moment.
    const changed = async () => {
      await refresh();
      window.setTimeout(refresh, 5_000);
    };

    const attach = formDialog(
      "Attach ranks",
      [
        number("Ranks", "ranks", 2),
        number("Nodes", "nodes", 1),
        { ...text("GPU of each rank", "gpu"), placeholder: t("a100 or 1") },
        number("CPUs of each rank", "cpu", 1),
        text("Memory of each rank", "memory", "4G"),
        text("Time limit", "max_duration", "2h"),
        text("Release when idle for", "idle", "15m"),
      ],
      "Attach ranks",
      async (fields) => {
        await ask("ranks", "POST", fields);
        await changed();
        listGroups();
      },
    );
    const listGroups = () => {
      const groups = status.ranks ?? [];
      const entries = groups.map((group) => {
        const release = make("button", { type: "button", textContent: t("Release"), disabled: group.cancel_requested });
        release.addEventListener("click", async () => {
          const runs = group.state === "RUNNING";
          if (runs && !window.confirm(t("Release {ranks}? What they have in memory is lost.", { ranks: ranksText(group.ranks) }))) return;
          release.disabled = true;
          attach.problem.textContent = "";
          try {
            await ask("ranks/release", "POST", { group: group.job_id });
            await changed();
            listGroups();
          } catch (error) {
            attach.problem.textContent = error.message;
            release.disabled = false;
          }
        });
        return make("li", {}, make("span", { textContent: groupText(group, now()) }), release, make("small", { textContent: group.message ?? "" }));
      });
      const none = make("p", { textContent: t("None. Ranks execute cells on several GPUs or nodes.") });
      attach.above.replaceChildren(make("strong", { textContent: t("Attached ranks") }), entries.length === 0 ? none : make("ul", {}, ...entries));
    };
    ranks.addEventListener("click", async () => {
      listGroups();
      attach.dialog.showModal();
      await refresh();
      listGroups();
    });

    const run = formDialog(
      "Run as batch job",
      [
        text("Name", "name"),
        number("Nodes", "nodes", 1),
        { ...number("Ranks on each node", "ranks_per_node", ""), required: false },
        { ...text("GPUs on each node", "gpu"), placeholder: "a100:2" },
        text("Time limit", "max_duration"),
        { label: "Parameters, one on each line", name: "parameters", rows: 3, placeholder: "lr=0.1" },
      ],
      "Run as batch job",
      async (fields) => {
        const document = notebook();
        if (document === undefined) return;
        await document.save();
        const group = attached();
        const job = await ask("batch", "POST", { ...fields, path: document.path, ...(group === undefined ? {} : { group: group.job_id }) });
        const open = make("a", { href: status.portal_url.replace(/[^/]*$/, job.id), target: "_blank", rel: "noreferrer", textContent: t("Open job") });
        run.above.replaceChildren(make("p", { textContent: t("Submitted as {name}.", { name: job.name }) }), open);
        return true;
      },
    );
    /** The ranks that the notebook uses here, and has as a job too. */
    const attached = () => (status.ranks ?? []).find((group) => group.state === "RUNNING" && !group.cancel_requested);
    batch.addEventListener("click", () => {
      const path = notebook()?.path ?? "";
      const group = attached();
      run.reset([
        { name: "name", value: path.replace(/^.*\//, "") },
        { name: "nodes", value: group?.nodes ?? 1 },
        { name: "ranks_per_node", value: group === undefined ? "" : group.ranks / group.nodes },
        { name: "parameters", value: "" },
      ]);
      const defaults = defaultsOf(notebook());
      run.above.replaceChildren(
        make("strong", { textContent: path }),
        make("p", { textContent: t("It runs with the software, data and resources of this session.") }),
        ...(defaults === "" ? [] : [make("p", { textContent: t("Defaults: {text}", { text: defaults }) })]),
      );
      run.dialog.showModal();
    });
    node.append(attach.dialog, run.dialog, over);

    window.setInterval(() => {
      if (document.hidden) return;
      if (Date.now() - askedAt >= REFRESH_MS) void refresh();
      else draw();
    }, TICK_MS);
    void refresh();
    let soon;
    void follow(() => {
      // Several changes at once are one question.
      soon ??= window.setTimeout(() => {
        soon = undefined;
        if (document.hidden) askedAt = 0;
        else void refresh();
      }, CHANGE_MS);
    });
  };

  let shared = {};
  const plugin = {
    id: "aitne-bar:plugin",
    autoStart: true,
    activate: async (app) => {
      const [widgets] = Object.values(shared["@lumino/widgets"] ?? {});
      if (widgets === undefined) return;
      const { Widget } = (await widgets.get())();
      const style = document.createElement("style");
      style.textContent = STYLE;
      document.head.append(style);
      const bar = new Widget();
      bar.id = "aitne-bar";
      fill(bar.node, () => {
        // While JupyterLab restores a workspace, the current widget may be behind another one.
        const current = app.shell.currentWidget;
        const visible = [...app.shell.widgets("main")].filter((widget) => widget.isVisible);
        const candidates = visible.includes(current) ? [current] : visible;
        return candidates
          .map((widget) => widget.context)
          .find((context) => context?.path?.endsWith(".ipynb"));
      });
      app.shell.add(bar, "top", { rank: 10_000 });
    },
  };

  (window._JUPYTERLAB ??= {})["aitne-bar"] = {
    init: (scope) => {
      shared = scope;
      return Promise.resolve();
    },
    get: () => Promise.resolve(() => ({ __esModule: true, default: plugin })),
  };
})();

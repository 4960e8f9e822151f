// A bar at the top of JupyterLab: the way back to the portal, the time left, Extend, and the memory and GPUs in use. It asks the
// session's own server (aitne_session.py). JupyterLab loads it as it is.
"use strict";

(() => {
  const REFRESH_MS = 60_000;
  const TICK_MS = 1_000;
  const SOON_MS = 15 * 60_000;
  const GERMAN = {
    "Back to the portal": "Zurück zum Portal",
    "{time} left": "noch {time}",
    "Time limit reached": "Zeitlimit erreicht",
    "Extend by 1 h": "Um 1 h verlängern",
    "Memory {used} of {limit}": "Speicher {used} von {limit}",
    "GPU {share}": "GPU {share}",
    "Session": "Sitzung",
    "Not extended: {reason}": "Nicht verlängert: {reason}",
    "The platform does not answer.": "Die Plattform antwortet nicht.",
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

  const base = () => JSON.parse(document.getElementById("jupyter-config-data").textContent).baseUrl;
  const ask = async (path, method) => {
    const token = /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1] ?? "";
    const response = await fetch(`${base()}aitne/${path}`, { method, headers: { "X-XSRFToken": token } });
    const body = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(body.detail ?? body.message ?? t("The platform does not answer."));
    const date = Date.parse(response.headers.get("Date"));
    return { ...body, ahead: Number.isNaN(date) ? 0 : Date.now() - date };
  };

  const STYLE = `
    #aitne-bar { display: flex; align-items: center; gap: 12px; flex: 0 0 auto; margin-left: auto; padding: 0 12px; white-space: nowrap;
      font-size: var(--jp-ui-font-size1); color: var(--jp-ui-font-color1); }
    #aitne-bar[hidden] { display: none; }
    #aitne-bar a { color: var(--jp-content-link-color); }
    #aitne-bar .soon { padding: 0 6px; border-radius: 4px; font-weight: 600; background: var(--jp-warn-color3); color: #000; }
    #aitne-bar button { padding: 2px 8px; border: 1px solid var(--jp-border-color1); border-radius: 4px; background: var(--jp-layout-color1);
      color: inherit; font: inherit; cursor: pointer; }
    #aitne-bar button:disabled { opacity: 0.6; cursor: default; }
    @media (max-width: 900px) { #aitne-bar .use { display: none; } }`;

  /** The bar in `node`; it draws the last status again each second, and asks for another each minute while it is seen. */
  const fill = (node) => {
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
    const left = part("span", "left");
    const extend = part("button", "extend");
    extend.type = "button";
    extend.textContent = t("Extend by 1 h");
    const note = part("span", "note");
    note.setAttribute("role", "status");
    const portal = part("a", "portal");
    portal.textContent = t("Back to the portal");
    portal.target = "_blank";
    portal.rel = "noreferrer";

    let status;
    let askedAt = 0;
    const draw = () => {
      node.hidden = status === undefined;
      if (status === undefined) return;
      portal.href = status.portal_url;
      memory.hidden = status.memory_bytes === null;
      memory.textContent = t("Memory {used} of {limit}", { used: gigabytes(status.memory_bytes ?? 0), limit: gigabytes(status.memory_limit_bytes) });
      gpu.hidden = status.gpu_utilization === null || status.gpus === 0;
      gpu.textContent = t("GPU {share}", { share: percent(status.gpu_utilization ?? 0) });
      const ms = status.expires_at === null ? null : Date.parse(status.expires_at) - (Date.now() - status.ahead);
      left.hidden = extend.hidden = ms === null;
      if (ms === null) return;
      left.classList.toggle("soon", ms < SOON_MS);
      left.textContent = ms > 0 ? t("{time} left", { time: duration(ms) }) : t("Time limit reached");
    };
    const refresh = async () => {
      askedAt = Date.now();
      // Without an answer the last one stays; the time left goes on.
      status = await ask("session", "GET").catch(() => status);
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
    window.setInterval(() => {
      if (document.hidden) return;
      if (Date.now() - askedAt >= REFRESH_MS) void refresh();
      else draw();
    }, TICK_MS);
    void refresh();
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
      fill(bar.node);
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

import i18next from "i18next";
import { afterEach, beforeEach, expect, it } from "vitest";
import { setLanguage } from "@/i18n";
import { translateServerText } from "@/i18n/server";

beforeEach(async () => {
  // What a browser has and Node has not.
  Object.assign(globalThis, { document: { documentElement: { lang: "" } } });
  await setLanguage("de");
});
afterEach(() => setLanguage("en"));

it("translates a known message of the platform", () => {
  expect(translateServerText("Waits behind jobs of higher priority.")).toEqual({ text: "Wartet hinter Jobs höherer Priorität." });
});

it("keeps names and numbers of a message", () => {
  expect(translateServerText("Waits for 4 GPUs: 3 of 4 are free").text).toBe("Wartet auf 4 GPUs: frei 3 von 4.");
  expect(translateServerText("12 tasks: 4 running, 8 queued.").text).toBe("12 Tasks: 4 laufen, 8 warten.");
  expect(translateServerText("12 tasks: 1 running, 1 pending submit, 10 queued.").text).toBe("12 Tasks: 1 läuft, 1 wird eingereicht, 10 warten.");
  expect(translateServerText("3 tasks: 1 completed, 1 timed out, 1 out of memory.").text).toBe(
    "3 Tasks: 1 fertig, 1 über dem Zeitlimit, 1 ohne ausreichend Speicher.",
  );
  expect(translateServerText("The program ended with exit code 137.").text).toBe("Das Programm endete mit Exit-Code 137.");
  expect(translateServerText("The program was ended by signal 9.").text).toBe("Das Programm wurde durch Signal 9 beendet.");
});

it("translates what is said of placements", () => {
  expect(translateServerText("Rank order: 63 -> 7 crossings, busiest uplink 12 -> 1.").text).toBe("Reihenfolge der Ranks: 63 → 7 Übergänge, meistbelasteter Uplink 12 → 1.");
  expect(translateServerText("Job train has no placement yet: it is QUEUED. Wait until it runs.").text).toBe("Job train hat noch keine Platzierung: Wartet. Sie erscheint, sobald er läuft.");
  expect(translateServerText("4 nodes are requested, and 2 are free.").text).toBe("Angefordert sind 4 Knoten, frei 2.");
});

it("writes amounts of memory as numbers of the language", () => {
  expect(translateServerText("Waits for 1.5 GiB of memory on one node: 3 GiB are free").text).toBe("Wartet auf 1,5\u00a0GiB Speicher auf einem Knoten: frei 3\u00a0GiB.");
  expect(translateServerText("Waits for 4 CPUs on one node: 1 of 2 are free").text).toBe("Wartet auf 4 CPUs auf einem Knoten: frei 1 von 2.");
  expect(translateServerText("Waits for a node on which 2 CPUs, 7.5 GiB and 1 GPU are free together").text).toContain("2 CPUs, 7,5\u00a0GiB und 1 GPU");
});

it("writes values of metrics as numbers of the language", () => {
  expect(translateServerText("Task 3 reached the goal: accuracy 0.98 (goal: 0.975).").text).toBe("Task 3 hat das Ziel erreicht: accuracy 0,98 (Ziel: 0,975).");
});

it("translates the reasons of jobs that were held, rejected or failed", () => {
  const texts = {
    "One of its nodes (n1 (Kernel panic), n2) failed while it ran; the job is not the cause.":
      "Einer der Knoten (n1 (Kernel panic), n2) fiel während des Laufs aus; der Job ist nicht die Ursache.",
    "It was to run after job 16e48af7, which ended TIMED_OUT.": "Abhängig von Job 16e48af7, der mit dem Zustand „Zeitlimit“ endete.",
    "Waits for the scheduler: it does not answer.": "Wartet auf den Scheduler: Er antwortet nicht.",
    "JupyterLab did not start: it did not answer within 300 s. See the log.":
      "JupyterLab ist nicht gestartet: keine Antwort innerhalb von 300\u00a0s. Siehe Log.",
    "Maintenance (New switches): new jobs are held until 2026-03-01 12:00 UTC.":
      "Wartung (New switches): Neue Jobs werden bis 2026-03-01 12:00 UTC zurückgehalten.",
    "Maintenance: new jobs are held until it is over.": "Wartung: Neue Jobs werden bis zu ihrem Ende zurückgehalten.",
  };
  for (const [english, german] of Object.entries(texts)) expect(translateServerText(english)).toEqual({ text: german });
});

it("translates why a change was refused, with the state and the message of a job", () => {
  const texts = {
    "The job cannot be extended: it is RUNNING. Only a running one has an end that can be moved.":
      "Der Job kann nicht verlängert werden (Zustand: Läuft). Nur ein laufender hat ein Ende, das verschoben werden kann.",
    "The session cannot be opened: it is QUEUED. Waits behind jobs of higher priority. Wait until it is READY.":
      "Die Sitzung kann noch nicht geöffnet werden (Zustand: Wartet). Wartet hinter Jobs höherer Priorität. Warten, bis sie bereit ist.",
    "vision is closed: it accepts no new members.": "vision nimmt keine neuen Mitglieder auf (Zustand: Geschlossen).",
  };
  for (const [english, german] of Object.entries(texts)) expect(translateServerText(english)).toEqual({ text: german });
});

it("translates problems of topologies, with their file and line", () => {
  const texts = {
    "b.conf, line 2: the node n1 is on leaf1, and on leaf0 in a.conf, line 1. Correct one of the two, or use one source only.":
      "b.conf, Zeile 2: Der Knoten n1 ist an leaf1, und an leaf0 in a.conf, Zeile 1. Eine der beiden Angaben korrigieren oder nur eine Quelle verwenden.",
    "64 nodes on 3 leaves are known. No switch connects core, eth: jobs do not span them.":
      "64 Knoten an 3 Leaf-Switches sind bekannt. Kein Switch verbindet core, eth: Kein Job läuft auf mehreren davon.",
    "topology.conf: it is empty. Write the file again.": "topology.conf: Sie ist leer. Die Datei neu schreiben.",
    "topology.yaml, line 3: a list is expected here. Write it as in Slurm's manual page topology.yaml.":
      "topology.yaml, Zeile 3: Hier wird erwartet: eine Liste. Wie in Slurms Handbuchseite topology.yaml schreiben.",
    // The result of the health check.
    "/etc/topology.conf: /etc/topology.conf, line 1: the switch s1 has nodes and switches. Give each switch either Nodes= or Switches=. The topology lacks n[5-6] of the scheduler.":
      "/etc/topology.conf: /etc/topology.conf, Zeile 1: Der Switch s1 hat Knoten und Switches. Für jeden Switch entweder Nodes= oder Switches= angeben. Der Topologie fehlen Knoten des Schedulers: n[5-6].",
  };
  for (const [english, german] of Object.entries(texts)) expect(translateServerText(english)).toEqual({ text: german });
  const unknown = "topology.conf, line 2: something else.";
  expect(translateServerText(unknown)).toEqual({ text: unknown, lang: "en" });
});

it("returns unknown messages unchanged and marked as English", () => {
  expect(translateServerText("Slurm says (nothing).")).toEqual({ text: "Slurm says (nothing).", lang: "en" });
});

it("formats numbers for the language", () => {
  expect(i18next.t("{{count}} files", { count: 12_345 })).toBe("12.345 Dateien");
  expect(i18next.t("{{count}} files", { count: 1 })).toBe("1 Datei");
});

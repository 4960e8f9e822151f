/** The order of template cards, and the presets of a template. */
import type { Preset } from "@/api/preferences";
import type { Template } from "@/api/types";

/** Pinned templates first, then sessions, then jobs; each by title. */
export function sortTemplates(templates: readonly Template[], pinned: readonly string[]): Template[] {
  const rank = (template: Template) => (pinned.includes(template.name) ? 0 : template.type === "session" ? 1 : 2);
  return [...templates].sort((a, b) => rank(a) - rank(b) || sessionsFirst(a, b) || a.title.localeCompare(b.title));
}

function sessionsFirst(a: Template, b: Template): number {
  return Number(b.type === "session") - Number(a.type === "session");
}

export function presetsOf(presets: readonly Preset[], template: string): Preset[] {
  return presets.filter((preset) => preset.file.template === template);
}

export function findPreset(presets: readonly Preset[], template: string, name: string | undefined): Preset | undefined {
  return presetsOf(presets, template).find((preset) => preset.name === name);
}

const same = (a: Preset, b: Preset) => a.name === b.name && a.file.template === b.file.template;

/** The presets with this one added, or replaced where it exists. */
export function withPreset(presets: readonly Preset[], preset: Preset): Preset[] {
  return presets.some((entry) => same(entry, preset)) ? presets.map((entry) => (same(entry, preset) ? preset : entry)) : [...presets, preset];
}

export function withoutPreset(presets: readonly Preset[], preset: Preset): Preset[] {
  return presets.filter((entry) => !same(entry, preset));
}

export function renamedPreset(presets: readonly Preset[], preset: Preset, name: string): Preset[] {
  return presets.map((entry) => (same(entry, preset) ? { ...entry, name } : entry));
}

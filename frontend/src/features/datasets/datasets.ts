/** Selection of datasets and their paths in jobs. */
import i18next from "i18next";
import type { Dataset } from "@/api/catalog";
import { wordsOf } from "@/features/images/images";
import type { Tone } from "@/lib/states";

export function datasetReference(dataset: Pick<Dataset, "name" | "version">): string {
  return `${dataset.name}:${dataset.version}`;
}

export function splitReference(reference: string): { name: string; version: string | null } {
  const colon = reference.indexOf(":");
  return colon < 0
    ? { name: reference, version: null }
    : { name: reference.slice(0, colon), version: reference.slice(colon + 1) };
}

/** The path in a job: a fixed folder in a container, a link without one. */
export function datasetPlace(name: string, bare: boolean): string {
  return bare ? `$AITNE_DATASETS/${name}` : `/datasets/${name}`;
}

/**
 * The selection after a change to `next`: of each dataset only the version selected last, because two versions
 * would have the same path.
 */
export function chooseDatasets(old: readonly string[], next: readonly string[]): string[] {
  const added = next.filter((reference) => !old.includes(reference));
  const replaced = new Set(added.map((reference) => splitReference(reference).name));
  const unchanged = next.filter((reference) => old.includes(reference) && !replaced.has(splitReference(reference).name));
  const last = new Map(added.map((reference) => [splitReference(reference).name, reference]));
  return [...unchanged, ...last.values()];
}

/** Whether a job of the user in the project can use it. */
export function isReadable(dataset: Pick<Dataset, "owner" | "projects">, user: string, project: string): boolean {
  return dataset.owner === user || dataset.projects.includes(project);
}

/** Describes which jobs can use it, for users whose jobs cannot. */
export function readersText({ owner, projects }: Pick<Dataset, "owner" | "projects">): string {
  if (projects.length === 0) return i18next.t("Only for jobs of the owner, {{owner}}.", { owner });
  return i18next.t("Only for jobs in {{count}} projects: {{names}}.", { count: projects.length, names: projects.join(", ") });
}

export function isDamaged(dataset: Pick<Dataset, "damaged_files">): boolean {
  return dataset.damaged_files !== null && dataset.damaged_files > 0;
}

export function matchesDataset(dataset: Pick<Dataset, "name" | "version" | "description" | "owner">, text: string): boolean {
  const all = `${datasetReference(dataset)} ${dataset.description} ${dataset.owner}`.toLowerCase();
  return wordsOf(text).every((word) => all.includes(word));
}

export function filterDatasets(datasets: readonly Dataset[], text: string, withRetired: boolean): Dataset[] {
  return datasets.filter((dataset) => (withRetired || !dataset.retired) && matchesDataset(dataset, text));
}

export function datasetLook(dataset: Pick<Dataset, "damaged_files" | "retired" | "verified_at">): { label: string; tone: Tone } {
  if (isDamaged(dataset)) return { label: i18next.t("Damaged"), tone: "bad" };
  if (dataset.retired) return { label: i18next.t("Retired"), tone: "neutral" };
  return dataset.verified_at === null ? { label: i18next.t("Not verified"), tone: "active" } : { label: i18next.t("Verified"), tone: "good" };
}

/** The command to run on the cluster; the words in capitals are placeholders. */
export const ADD_COMMAND = "aitne dataset add NAME PATH --version 1.0";

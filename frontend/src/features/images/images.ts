/** Selection of images: which ones a template can use, their labels and references. */
import i18next from "i18next";
import type { Image, Package } from "@/api/catalog";
import type { Tone } from "@/lib/states";
import type { Job, Template } from "@/api/types";

export function imageReference(image: Pick<Image, "name" | "version">): string {
  return `${image.name}:${image.version}`;
}

/** Whether new jobs can use it. */
export function isOffered(image: Pick<Image, "state" | "damage">): boolean {
  return image.state === "offered" && image.damage === null;
}

/** The images that a new job of the template in the project can use; a session requires its apps in the image. */
export function fittingImages(images: readonly Image[], template: Pick<Template, "apps">, project: string): Image[] {
  return images.filter(
    (image) =>
      isOffered(image) &&
      (image.projects.length === 0 || image.projects.includes(project)) &&
      template.apps.every((app) => app.name in image.apps),
  );
}

/** The image of a reference; without a version, the newest one. */
export function imageOf(images: readonly Image[], reference: string): Image | undefined {
  const exact = images.find((image) => imageReference(image) === reference);
  if (exact !== undefined || reference.includes(":")) return exact;
  return images
    .filter((image) => image.name === reference)
    .reduce<Image | undefined>((last, image) => (last === undefined || image.created_at > last.created_at ? image : last), undefined);
}

/** Whether the name, version or description contains every word of the text. */
export function matchesImage(image: Pick<Image, "name" | "version" | "description">, text: string): boolean {
  const all = `${imageReference(image)} ${image.description}`.toLowerCase();
  return wordsOf(text).every((word) => all.includes(word));
}

export function filterImages(images: readonly Image[], text: string, withRetired: boolean): Image[] {
  return images.filter((image) => (withRetired || image.state === "offered") && matchesImage(image, text));
}

export function filterPackages(packages: readonly Package[], text: string): Package[] {
  const words = wordsOf(text);
  return packages.filter((entry) => {
    const all = `${entry.name} ${entry.version} ${entry.source}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

export function imageLook(image: Pick<Image, "state" | "damage">): { label: string; tone: Tone } {
  if (image.damage !== null) return { label: i18next.t("Damaged"), tone: "bad" };
  return image.state === "offered" ? { label: i18next.t("Available"), tone: "good" } : { label: i18next.t("Retired"), tone: "neutral" };
}

/** "sha256:0123456789ab…": enough to tell two apart by eye. */
export function shortDigest(digest: string): string {
  const hex = digest.replace(/^sha256:/, "");
  return hex.length <= 12 ? digest : `sha256:${hex.slice(0, 12)}…`;
}

/** The size of the image's smallest artifact; 0 without artifacts. */
export function imageBytes(image: Pick<Image, "artifacts">): number {
  return image.artifacts.length === 0 ? 0 : Math.min(...image.artifacts.map((artifact) => artifact.size_bytes));
}

export function wordsOf(text: string): string[] {
  return text.toLowerCase().split(/\s+/).filter((word) => word !== "");
}

/** The job's environment (modules, conda, venv, setup) as rows, without empty ones. */
export function environmentLines(environment: Job["environment"]): { name: string; text: string }[] {
  const { modules, conda, venv, setup } = environment;
  return [
    { name: i18next.t("Modules"), text: modules.join(" ") },
    { name: "conda", text: conda ?? "" },
    { name: "venv", text: venv ?? "" },
    { name: i18next.t("Setup"), text: setup.join("\n") },
  ].filter(({ text }) => text !== "");
}

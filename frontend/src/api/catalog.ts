/** What the portal asks about images, datasets and storage, and what it changes of them. */
import { queryOptions } from "@tanstack/react-query";
import { client, must } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered } from "@/api/types";

type Schemas = components["schemas"];

export type Image = Answered<Schemas["Image"]>;
export type Package = Answered<Schemas["Package"]>;
export type Dataset = Answered<Schemas["Dataset"]>;
export type AreaFacts = Answered<Schemas["AreaFacts"]>;
export type Quota = Answered<Schemas["Quota"]>;
export type ImageChanges = Schemas["ImageChanges"];
/** One thing that is changed about who may read a dataset. */
export type Grant = { grant: string } | { revoke: string };

export const catalogKeys = {
  images: ["images"],
  image: (name: string, version: string) => ["images", name, version],
  datasets: ["datasets"],
  dataset: (name: string, version: string) => ["datasets", name, version],
  storage: ["storage"],
  jobFolders: ["job-folders"],
} as const;

/** Without the packages of each. */
export const imagesQuery = queryOptions({
  queryKey: catalogKeys.images,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/images", { signal })),
  staleTime: 60_000,
});

export const imageQuery = (name: string, version: string) =>
  queryOptions({
    queryKey: catalogKeys.image(name, version),
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/images/{name}/{version}", { params: { path: { name, version } }, signal })),
  });

/** Every version, the retired ones too. */
export const datasetsQuery = queryOptions({
  queryKey: catalogKeys.datasets,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/datasets", { signal })),
  staleTime: 60_000,
});

export const datasetQuery = (name: string, version: string) =>
  queryOptions({
    queryKey: catalogKeys.dataset(name, version),
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/datasets/{name}/{version}", { params: { path: { name, version } }, signal })),
  });

/** Files come and go without any event; the file systems are asked only when somebody looks. */
export const storageQuery = queryOptions({
  queryKey: catalogKeys.storage,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/storage", { signal })),
  staleTime: 60_000,
  retry: false,
});

/** The space that the folders of the user's ended jobs take. */
export const jobFoldersQuery = queryOptions({
  queryKey: catalogKeys.jobFolders,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/storage/jobs", { signal })),
  staleTime: 60_000,
});

export function changeImage({ name, version }: Pick<Image, "name" | "version">, changes: ImageChanges): Promise<Image> {
  return must(client.PATCH("/api/v1/images/{name}/{version}", { params: { path: { name, version } }, body: changes }));
}

export function retireDataset({ name, version }: Pick<Dataset, "name" | "version">, retired: boolean): Promise<Dataset> {
  return must(client.PATCH("/api/v1/datasets/{name}/{version}", { params: { path: { name, version } }, body: { retired } }));
}

export function changeReaders({ name, version }: Pick<Dataset, "name" | "version">, change: Grant): Promise<Dataset> {
  const path = "/api/v1/datasets/{name}/{version}/projects/{project}";
  return "grant" in change
    ? must(client.PUT(path, { params: { path: { name, version, project: change.grant } } }))
    : must(client.DELETE(path, { params: { path: { name, version, project: change.revoke } } }));
}

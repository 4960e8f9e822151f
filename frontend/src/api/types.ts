/** The API's nouns by short names, as its OpenAPI document has them. */
import type { components } from "@/api/schema";

type Schemas = components["schemas"];

/**
 * What the API answers. A field with a default may be left out of a request, so the document calls it
 * optional; an answer always has it.
 */
export type Answered<T> = T extends readonly (infer Item)[]
  ? Answered<Item>[]
  : T extends object
    ? { [Key in keyof T]-?: Answered<Exclude<T[Key], undefined>> }
    : T;

export type Job = Answered<Schemas["JobView"]>;
export type JobState = Schemas["JobState"];
export type JobPage = Answered<Schemas["JobPage"]>;
export type JobEvent = Answered<Schemas["Event"]>;
export type Stage = Answered<Schemas["Stage"]>;
export type Resources = Answered<Schemas["Resources"]>;
export type Metrics = Answered<Schemas["JobMetrics"]>;
export type JobProfile = Answered<Schemas["Profile"]>;
export type Me = Answered<Schemas["Me"]>;
export type Template = Answered<Schemas["Template"]>;
export type Parameter = Answered<Schemas["Parameter"]>;
export type ClusterNode = Answered<Schemas["Node"]>;
export type ClusterNodes = Answered<Schemas["NodeList"]>;
export type LoadHistory = Answered<Schemas["LoadHistory"]>;
export type LoadPeriod = Schemas["LoadPeriod"];
export type Reservation = Answered<Schemas["Reservation"]>;
export type QueueReport = Answered<Schemas["QueueReport"]>;
export type PartitionQueue = QueueReport["items"][number];
export type Partitions = Answered<Schemas["PartitionList"]>;
export type Plan = Answered<Schemas["Plan"]>;
export type Token = Answered<Schemas["Token"]>;
export type TokenSecret = Answered<Schemas["TokenSecret"]>;
export type User = Answered<Schemas["User"]>;
export type FieldProblem = Answered<Schemas["FieldProblemView"]>;

/** What the portal sends. */
export type JobFile = Schemas["JobFile-Input"];
export type DeviceLoginAnswer = Schemas["DeviceLoginAnswer"];
export type DeviceLoginView = Answered<Schemas["DeviceLoginView"]>;
export type Scope = Schemas["Scope"];
export type NewToken = Schemas["NewToken"];
export type NewUser = Schemas["NewUser"];
export type UserChanges = Schemas["UserChanges"];

export type Scalar = string | number | boolean;
export type CancelResults = Answered<Schemas["CancelResults"]>;
export type DeleteResults = Answered<Schemas["DeleteResults"]>;
export type Failure = Answered<Schemas["Failure"]>;
export type Remedy = Failure["remedies"][number];
export type ResubmitOptions = Schemas["ResubmitOptions"];
export type Capacity = Answered<Schemas["Capacity"]>;
export type GpuCapacity = Capacity["gpus"][number];
export type ImportedJobFile = Answered<Schemas["ImportedJobFile"]>;
export type ImportNote = ImportedJobFile["notes"][number];

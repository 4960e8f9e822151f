import { NumberInput, Select, SimpleGrid, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { nodesQuery } from "@/api/queries";
import { rankKeys, ranksPlanQuery, startRanks } from "@/api/ranks";
import type { ClusterNode, Job } from "@/api/types";
import { FormDialog } from "@/components/FormDialog";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { PlanView } from "@/components/PlanView";
import { useProblems } from "@/hooks/use-problems";
import { uuid } from "@/lib/id";
import { ANY_GPU, gpuTypes, initialRanks, ranksProblems, type RanksValues, toRanksFile } from "./ranks";

const MOST_RANKS = 4_096;
const PLAN_DELAY_MS = 300;
const FIELDS = ["ranks", "nodes", "gpu", "cpu", "memory", "max_duration", "idle"];

interface Props {
  session: Job;
  onClose: () => void;
}

/** Requests ranks for a session; the form begins with what the cluster has, so it waits for that. */
export function AttachRanks({ session, onClose }: Props) {
  const { t } = useTranslation();
  const nodes = useQuery(nodesQuery);
  if (nodes.data !== undefined) return <Form session={session} nodes={nodes.data.items} onClose={onClose} />;
  return (
    <FormDialog title={t("Attach ranks")} action={t("Attach ranks")} busy={false} disabled error={null} onClose={onClose} onSubmit={() => undefined}>
      {nodes.isPending ? <PanelSkeleton rows={5} /> : <PageError compact error={nodes.error} onRetry={() => nodes.refetch()} />}
    </FormDialog>
  );
}

function Form({ session, nodes, onClose }: Props & { nodes: readonly ClusterNode[] }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [values, setValues] = useState(() => initialRanks(nodes));
  const [key] = useState(uuid);
  const types = useMemo(() => gpuTypes(nodes), [nodes]);
  const local = ranksProblems(values);
  const complete = Object.keys(local).length === 0;
  const file = useMemo(() => toRanksFile(values), [values]);
  const [settled] = useDebouncedValue(file, PLAN_DELAY_MS);
  const plan = useQuery({ ...ranksPlanQuery(session.id, settled), enabled: complete && settled === file });
  const start = useMutation({
    mutationFn: () => startRanks(session.id, file, key),
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: rankKeys.session(session.id) });
      onClose();
    },
  });
  const refused = start.error ?? (complete ? plan.error : null);
  const { errorOf, hasOtherErrors } = useProblems(refused, FIELDS);
  const set = (change: Partial<RanksValues>) => {
    start.reset();
    setValues((old) => ({ ...old, ...change }));
  };
  const count = (field: "ranks" | "nodes" | "cpu") => ({
    value: values[field],
    min: 1,
    allowDecimal: false,
    allowNegative: false,
    clampBehavior: "blur" as const,
    error: local[field] ?? errorOf(field),
    onChange: (next: number | string) => {
      if (typeof next === "number" && next >= 1) set({ [field]: next });
    },
  });
  const text = (field: "memory" | "duration" | "idle", name: string) => ({
    value: values[field],
    error: local[field] ?? errorOf(name),
    onChange: (event: { currentTarget: { value: string } }) => set({ [field]: event.currentTarget.value }),
  });
  return (
    <FormDialog
      title={t("Attach ranks to {{name}}", { name: session.name })}
      action={t("Attach ranks")}
      size="lg"
      busy={start.isPending}
      disabled={!complete}
      error={hasOtherErrors ? start.error : null}
      onClose={onClose}
      onSubmit={() => start.mutate()}
      testId="ranks-start"
    >
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md" verticalSpacing="sm">
        <NumberInput label={t("Ranks")} description={t("Processes that execute each cell together.")} max={MOST_RANKS} {...count("ranks")} data-autofocus data-testid="ranks-count" />
        <NumberInput label={t("Nodes")} description={t("Each runs the same number of ranks.")} max={Math.max(1, nodes.length)} {...count("nodes")} data-testid="ranks-nodes" />
        <Select
          label={t("GPU of each rank")}
          description={t("Free now, of all in the cluster.")}
          data={[
            { value: "", label: t("None") },
            ...types.map(({ type, free, total }) => ({ value: type ?? ANY_GPU, label: t("{{type}}: {{free}} of {{total}} free", { type: type ?? t("GPU"), free, total }) })),
          ]}
          value={values.gpu ?? ""}
          error={errorOf("gpu")}
          allowDeselect={false}
          onChange={(type) => set({ gpu: type === null || type === "" ? null : type })}
          data-testid="ranks-gpu"
        />
        <TextInput label={t("Time limit")} description={t("The ranks end then at the latest.")} {...text("duration", "max_duration")} data-testid="ranks-duration" />
        <NumberInput label={t("CPUs per rank")} {...count("cpu")} />
        <TextInput label={t("Memory per rank")} {...text("memory", "memory")} />
        <TextInput
          label={t("Release after idle time")}
          description={t("Time without work in a cell. Leave blank to keep the ranks until their time limit.")}
          {...text("idle", "idle")}
          data-testid="ranks-idle"
        />
      </SimpleGrid>
      <PlanView plan={complete ? plan.data : undefined} error={plan.error} hint={complete ? null : t("Correct the marked fields to see when the ranks would start.")} fresh={!plan.isPlaceholderData && settled === file} />
    </FormDialog>
  );
}

import { Anchor, Group, Stack, Text, Title } from "@mantine/core";
import { queryOptions, useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { client, must } from "@/api/client";
import { UsageBar } from "@/components/Capacity";
import { formatNumber } from "@/lib/units";
import dashboard from "@/components/Dashboard.module.css";
import classes from "@/components/GpuPanel.module.css";

const balanceQuery = (name: string) =>
  queryOptions({
    queryKey: ["project-balance", name],
    queryFn: async ({ signal }) => must(client.GET("/api/v1/projects/{name}/balance", { params: { path: { name } }, signal })),
    staleTime: 60_000,
    retry: false,
  });

/** The remaining budgets of the user's projects; renders nothing without a budget. */
export function BalancePanel({ projects }: { projects: readonly string[] }) {
  const { t } = useTranslation();
  const balances = useQueries({ queries: projects.slice(0, 6).map(balanceQuery) });
  const rows = balances.flatMap(({ data }) =>
    data === undefined
      ? []
      : ([["gpu", data.gpu_hours, t("GPU hours")], ["cpu", data.cpu_hours, t("CPU hours")]] as const).flatMap(([kind, share, unit]) =>
          share.budget === null ? [] : [{ key: `${data.project} ${kind}`, project: data.project, used: share.used ?? 0, left: share.remaining ?? share.budget, budget: share.budget, unit, exhausted: data.exhausted }],
        ),
  );
  if (rows.length === 0) return null;
  return (
    <section className={`card ${dashboard.panel ?? ""}`} aria-labelledby="balance-title" data-testid="balance-panel">
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h5" id="balance-title">
          {t("Budgets")}
        </Title>
        <Anchor component={Link} to="/projects" size="sm">
          {t("Projects")}
        </Anchor>
      </Group>
      <Stack gap="md">
        {rows.map(({ key, project, used, left, budget, unit, exhausted }) => (
          <div key={key}>
            <div className={classes.label}>
              <strong className="truncate">{project}</strong>
              <span className="tabular">{t("{{left}} of {{budget}} {{unit}} remaining", { left: formatNumber(Math.round(left)), budget: formatNumber(budget), unit })}</span>
            </div>
            <UsageBar used={used} total={budget} label={t("{{project}}: {{unit}} used", { project, unit })} />
            {exhausted && (
              <Text size="xs" c="var(--warn)" mt={5}>
                {t("Budget used up. New jobs are rejected. Contact a project manager.")}
              </Text>
            )}
          </div>
        ))}
      </Stack>
    </section>
  );
}

import { Group, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { type Balance, balanceQuery, type Share } from "@/api/projects";
import { UsageBar } from "@/components/Capacity";
import { PageError } from "@/components/PageError";
import { RelativeTime } from "@/components/Time";
import { formatNumber } from "@/lib/units";
import { dayOf, monthName } from "./projects";

/** Usage and budget of a project; `compact` for a card in a list. */
export function BalanceView({ name, compact = false }: { name: string; compact?: boolean }) {
  const { t } = useTranslation();
  const query = useQuery(balanceQuery(name));
  if (query.isPending) {
    return (
      <div aria-busy="true">
        <span className="visually-hidden">{t("Loading")}</span>
        <Skeleton h={compact ? 30 : 84} />
      </div>
    );
  }
  if (!query.data) {
    return compact ? (
      <Text size="sm" c="dimmed">
        {t("Usage unavailable")}
      </Text>
    ) : (
      <PageError compact error={query.error} onRetry={() => query.refetch()} />
    );
  }
  return compact ? <CompactBalance balance={query.data} /> : <FullBalance balance={query.data} />;
}

/** The resource shown in a compact view: the one with a budget, else GPU-hours. */
function mainShare(balance: Balance): { unit: "gpu" | "cpu"; share: Share } {
  const cpu = balance.gpu_hours.budget === null && balance.cpu_hours.budget !== null;
  return cpu ? { unit: "cpu", share: balance.cpu_hours } : { unit: "gpu", share: balance.gpu_hours };
}

function CompactBalance({ balance }: { balance: Balance }) {
  const { unit, share } = mainShare(balance);
  return <ShareBar share={share} unit={unit} balance={balance} short />;
}

function FullBalance({ balance }: { balance: Balance }) {
  const { t } = useTranslation();
  return (
    <Stack gap="md">
      <ShareBar share={balance.gpu_hours} unit="gpu" balance={balance} />
      <ShareBar share={balance.cpu_hours} unit="cpu" balance={balance} />
      <Text size="xs" c="dimmed">
        {balance.until === null
          ? t("Usage since {{day}}.", { day: dayOf(balance.since) })
          : t("Usage since {{day}}. Resets on {{next}}.", { day: dayOf(balance.since), next: dayOf(balance.until) })}{" "}
        {balance.as_of === null ? t("No usage data yet.") : <Updated at={balance.as_of} />}
      </Text>
    </Stack>
  );
}

function Updated({ at }: { at: string }) {
  const { t } = useTranslation();
  return (
    <>
      {t("Updated")} <RelativeTime at={at} />.
    </>
  );
}

function ShareBar({ share, unit, balance, short = false }: { share: Share; unit: "gpu" | "cpu"; balance: Balance; short?: boolean }) {
  const { t } = useTranslation();
  const title = unit === "gpu" ? t("GPU-hours") : t("CPU-hours");
  const period = balance.period === "month" ? monthName(balance.since.slice(0, 7), short) : t("total");
  const used = share.used === null ? "–" : formatNumber(share.used);
  return (
    <div data-testid="balance">
      <Group justify="space-between" gap="xs" mb={share.budget === null ? 0 : 4} wrap="nowrap">
        <Text size="sm" truncate>
          {title} <Text span c="dimmed" size="sm">{period}</Text>
        </Text>
        <Text size="sm" className="tabular" style={{ whiteSpace: "nowrap" }} c={share.remaining === 0 ? "var(--bad)" : undefined}>
          {share.budget === null ? used : t("{{used}} of {{budget}}", { used, budget: formatNumber(share.budget) })}
        </Text>
      </Group>
      {share.budget !== null && <UsageBar used={share.used ?? 0} total={share.budget} label={t("{{title}} used", { title })} />}
    </div>
  );
}

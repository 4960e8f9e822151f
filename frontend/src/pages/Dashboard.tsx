import { Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { GpuPanel } from "@/features/cluster/GpuPanel";
import { LaunchPanel } from "@/features/jobs/launch/LaunchPanel";
import { StartAgain } from "@/features/jobs/launch/StartAgain";
import { RecentJobs } from "@/features/jobs/RecentJobs";
import { BalancePanel } from "@/features/projects/BalancePanel";
import { SessionList } from "@/features/sessions/SessionList";
import { StoragePanel } from "@/features/storage/StoragePanel";
import classes from "@/components/Dashboard.module.css";

export function DashboardPage() {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  useDocumentTitle(me.platform.title);
  return (
    <div className={classes.grid}>
      <h1 className="visually-hidden">{t("Home")}</h1>
      <div className={classes.main}>
        <section aria-labelledby="sessions-title">
          <SectionTitle id="sessions-title" title={t("Your sessions")} />
          <SessionList user={me.user.name} />
        </section>
        <section aria-labelledby="launch-title">
          <SectionTitle id="launch-title" title={t("Launch")} />
          <StartAgain />
          <LaunchPanel />
        </section>
      </div>
      <aside className={classes.aside}>
        <GpuPanel />
        <BalancePanel projects={me.projects} />
        <StoragePanel />
        <RecentJobs user={me.user.name} />
      </aside>
    </div>
  );
}

function SectionTitle({ id, title }: { id: string; title: string }) {
  return (
    <div className={classes.h2}>
      <Title order={2} size="h4" id={id}>
        {title}
      </Title>
    </div>
  );
}

import { Button, Skeleton } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Cpu, Plus } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { ranksQuery } from "@/api/ranks";
import type { Job } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { PageError } from "@/components/PageError";
import { QueuePosition } from "@/components/QueuePosition";
import { ServerText } from "@/components/ServerText";
import { StateBadge } from "@/components/StateBadge";
import { RelativeTime } from "@/components/Time";
import { useNow, useSlowNow } from "@/hooks/use-now";
import { stageDetail } from "@/lib/stage-detail";
import { isTerminal } from "@/lib/states";
import { formatTicking } from "@/lib/time";
import { costPerHour, describeGroup, losesState, ranksOf, shownGroups } from "./ranks";
import { ReleaseConfirm } from "./ReleaseConfirm";
import { useRelease } from "./use-release";
import classes from "./AttachedRanks.module.css";

const AttachRanks = lazy(async () => ({ default: (await import("./AttachRanks")).AttachRanks }));

/** The ranks of a session: those attached or requested, with Release, and the button that attaches more. */
export function AttachedRanks({ session }: { session: Job }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const query = useQuery(ranksQuery(session.id));
  const now = useSlowNow();
  const [attaching, setAttaching] = useState(false);
  const mine = session.owner === me.user.name;
  const groups = query.data && shownGroups(query.data.items, now);
  return (
    <section className={classes.ranks} aria-label={t("Ranks of {{name}}", { name: session.name })} data-testid="attached-ranks">
      <div className={classes.head}>
        <Cpu size={16} aria-hidden />
        <strong>{t("Attached ranks")}</strong>
        {query.isPending && <Skeleton h={12} w={120} aria-busy="true" />}
        {groups?.length === 0 && session.distributed === null && <span className={classes.dim}>{t("None attached. Ranks run cells on several GPUs or nodes.")}</span>}
        {mine && (
          <ChangeButton
            className={classes.attach ?? ""}
            size="compact-sm"
            variant="light"
            leftSection={<Plus size={14} />}
            disabled={session.cancel_requested}
            onClick={() => setAttaching(true)}
            data-testid="ranks-attach"
          >
            {t("Attach ranks")}
          </ChangeButton>
        )}
      </div>
      {query.isError && query.data === undefined && <PageError compact error={query.error} onRetry={() => query.refetch()} />}
      {groups !== undefined && (
        <ul className={classes.list}>
          {session.distributed !== null && (
            <li className={classes.group}>
              <span className={classes.facts}>{describeGroup(session)}</span>
              <span className={classes.dim}>{t("in the session's own allocation")}</span>
            </li>
          )}
          {groups.map((group) => (
            <RankGroup key={group.id} session={session} group={group} mine={mine} />
          ))}
        </ul>
      )}
      {attaching && (
        <Suspense>
          <AttachRanks session={session} onClose={() => setAttaching(false)} />
        </Suspense>
      )}
    </section>
  );
}

function RankGroup({ session, group, mine }: { session: Job; group: Job; mine: boolean }) {
  const { t } = useTranslation();
  const detail = stageDetail(group);
  return (
    <li className={classes.group} data-testid="rank-group" data-state={group.state}>
      <StateBadge job={group} />
      <Link to="/jobs/$jobId" params={{ jobId: group.id }} className={classes.facts}>
        {describeGroup(group)}
      </Link>
      {mine && !isTerminal(group.state) && <ReleaseButton session={session} group={group} />}
      <span className={`${classes.more ?? ""} tabular`}>
        {!isTerminal(group.state) && <span>{costPerHour(group)}</span>}
        {group.expires_at !== null && !isTerminal(group.state) && <TimeLeft until={group.expires_at} />}
        {group.gpu_idle_since !== null && !isTerminal(group.state) && (
          <span className={classes.idle}>
            {t("GPUs last used")} <RelativeTime at={group.gpu_idle_since} />
          </span>
        )}
      </span>
      {detail !== null && (
        <span className={classes.detail} role="status">
          <ServerText>{detail.text}</ServerText>
          {detail.expected !== null && (
            <>
              {" "}
              {t("Estimated start:")} <RelativeTime at={detail.expected} />
            </>
          )}
        </span>
      )}
      <QueuePosition job={group} />
    </li>
  );
}

function TimeLeft({ until }: { until: string }) {
  const { t } = useTranslation();
  const left = (Date.parse(until) - useNow().getTime()) / 1000;
  return <span>{left > 0 ? t("{{time}} left", { time: formatTicking(left) }) : t("Time limit reached")}</span>;
}

/** Ends a rank group; asks first where ranks run, because what they have in memory is lost. */
function ReleaseButton({ session, group }: { session: Job; group: Job }) {
  const { t } = useTranslation();
  const release = useRelease(session.id, group);
  const [confirming, setConfirming] = useState(false);
  const pending = !losesState(group);
  return (
    <>
      <Button
        size="compact-sm"
        variant="subtle"
        color="red"
        className={classes.release ?? ""}
        loading={release.isPending}
        disabled={group.cancel_requested}
        aria-label={pending ? t("Withdraw the request for {{count}} ranks", { count: ranksOf(group) }) : t("Release {{count}} ranks", { count: ranksOf(group) })}
        onClick={() => (pending ? release.mutate() : setConfirming(true))}
        data-testid="ranks-release"
      >
        {pending ? t("Withdraw") : t("Release")}
      </Button>
      <ReleaseConfirm
        group={group}
        opened={confirming}
        busy={release.isPending}
        onClose={() => setConfirming(false)}
        onConfirm={() => release.mutate(undefined, { onSettled: () => setConfirming(false) })}
      />
    </>
  );
}

import { CloseButton } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CircleAlert, Info, TriangleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Announcement, adminKeys, announcementsQuery, dismissAnnouncement } from "@/api/admin";
import { notifyProblem } from "@/components/notify";
import { useRefusal } from "@/hooks/use-refusal";
import { LinkedText } from "./LinkedText";
import { severityLook } from "./severity";
import classes from "./Banner.module.css";

const ICONS: Partial<Record<string, typeof Info>> = { info: Info, warning: TriangleAlert, critical: CircleAlert };

/** The announcements of administrators that the user has not dismissed, one line each. */
export function AnnouncementBanner() {
  const { data } = useQuery(announcementsQuery);
  const announcements = data?.filter((announcement) => !announcement.dismissed) ?? [];
  if (announcements.length === 0) return null;
  return (
    <div className={classes.stack}>
      {announcements.map((announcement) => (
        <Line key={announcement.id} announcement={announcement} />
      ))}
    </div>
  );
}

function Line({ announcement }: { announcement: Announcement }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { id, severity, text, dismissible } = announcement;
  const refusal = useRefusal();
  const dismiss = useMutation({
    mutationFn: () => dismissAnnouncement(id),
    onMutate: () =>
      cache.setQueryData(announcementsQuery.queryKey, (old) => old?.map((entry) => (entry.id === id ? { ...entry, dismissed: true } : entry))),
    onError: (error) => {
      notifyProblem(t("Could not dismiss the announcement"), error);
      void cache.invalidateQueries({ queryKey: adminKeys.announcements });
    },
  });
  const Icon = ICONS[severity] ?? Info;
  return (
    <div className={classes.banner} data-tone={severityLook(severity).tone} role={severity === "critical" ? "alert" : "status"} data-testid="announcement">
      <Icon size={17} aria-hidden className={classes.icon} />
      <p className={classes.text}>
        <span className="visually-hidden">{t(severityLook(severity).label)}: </span>
        <LinkedText>{text}</LinkedText>
      </p>
      {dismissible && <CloseButton size="sm" aria-label={t("Dismiss announcement")} title={refusal ?? undefined} disabled={refusal !== null} onClick={() => dismiss.mutate()} />}
    </div>
  );
}

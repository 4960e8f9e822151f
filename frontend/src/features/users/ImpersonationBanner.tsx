import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { UserRoundSearch } from "lucide-react";
import { useEffect, useState } from "react";
import { Trans, useTranslation } from "react-i18next";
import { platformNow } from "@/api/client";
import { meQuery } from "@/api/queries";
import { notifyProblem } from "@/components/notify";
import { endImpersonation } from "@/features/account/account";
import { useNow } from "@/hooks/use-now";
import { formatTicking } from "@/lib/time";
import classes from "./ImpersonationBanner.module.css";

/** On every page while an administrator impersonates another user. */
export function ImpersonationBanner() {
  const { data: me } = useSuspenseQuery(meQuery);
  if (me.impersonation === null) return null;
  return <Banner name={me.user.name} by={me.impersonation.impersonator} until={me.impersonation.until} />;
}

function Banner({ name, by, until }: { name: string; by: string; until: string }) {
  const { t } = useTranslation();
  const now = useNow();
  const [busy, setBusy] = useState(false);
  const remaining = Math.max(0, Math.round((Date.parse(until) - platformNow().getTime()) / 1000));
  useEffect(() => {
    // The impersonation has ended; the content of the page belongs to the impersonated user.
    if (remaining === 0) window.location.assign("/");
  }, [remaining, now]);
  const end = async () => {
    setBusy(true);
    try {
      await endImpersonation();
      window.location.assign("/admin/users");
    } catch (error) {
      notifyProblem(t("Could not stop impersonating {{name}}", { name }), error);
      setBusy(false);
    }
  };
  return (
    <div className={classes.banner} role="status" data-testid="impersonation">
      <UserRoundSearch size={18} aria-hidden />
      <span className={classes.text}>
        <Trans
          i18nKey="{{by}} impersonating <strong>{{name}}</strong>. Allowed actions: stop and extend jobs."
          values={{ by, name }}
          components={{ strong: <strong /> }}
        />{" "}
        <span className="tabular">{t("Ends in {{time}}", { time: formatTicking(remaining) })}</span>
      </span>
      <Button size="compact-sm" variant="white" color="dark" loading={busy} onClick={() => void end()} data-testid="end-impersonation">
        {t("Stop impersonating")}
      </Button>
    </div>
  );
}

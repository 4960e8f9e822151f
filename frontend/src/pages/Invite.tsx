import { Button, Loader, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { FolderOpen } from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { client, isStatus, must, setCsrfToken } from "@/api/client";
import { acceptInvitation, type InvitationPreview, invitationQuery, projectKeys } from "@/api/projects";
import { keys } from "@/api/queries";
import type { Me } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { FormProblem } from "@/components/FormProblem";
import { Wordmark } from "@/components/Logo";
import { PageError } from "@/components/PageError";
import classes from "@/components/projects/Projects.module.css";
import { RelativeTime } from "@/components/Time";
import { roleLabel } from "@/lib/projects";

/** Who is logged in, or nobody: that is no reason to leave this page. */
const whoQuery = queryOptions({
  queryKey: ["who"],
  queryFn: async ({ signal }): Promise<Me | null> => {
    try {
      const me = await must(client.GET("/api/v1/me", { signal }));
      setCsrfToken(me.csrf_token ?? null);
      return me;
    } catch (error) {
      if (isStatus(error, 401)) return null;
      throw error;
    }
  },
});

const KEPT_AS = "aitne-invitation";

/**
 * The secret after `#` in the address. It is kept for this tab while somebody logs in, and goes away from the address
 * bar and the history at once.
 */
function takeToken(): string | null {
  const given = window.location.hash.slice(1);
  if (given !== "") {
    sessionStorage.setItem(KEPT_AS, given);
    window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search);
  }
  return sessionStorage.getItem(KEPT_AS);
}

/** Who invites to what, and one press to join. */
export function InvitePage() {
  const { t } = useTranslation();
  useDocumentTitle(`${t("Invitation")} · Aitne`);
  const [token, setToken] = useState(takeToken);
  useEffect(() => {
    const follow = () => setToken(takeToken());
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return (
    <main className={classes.invite}>
      <div className={`card ${classes.inviteCard ?? ""}`}>
        <Stack gap="lg">
          <Wordmark title="Aitne" />
          {token === null ? (
            <EmptyState icon={FolderOpen} title={t("There is no invitation here")} heading>
              {t("Open the whole link that you were given; the part after # belongs to it.")}
            </EmptyState>
          ) : (
            <Invitation key={token} token={token} />
          )}
        </Stack>
      </div>
    </main>
  );
}

function Invitation({ token }: { token: string }) {
  const query = useQuery(invitationQuery(token));
  const { t } = useTranslation();
  if (query.isPending) return <Loader size="sm" role="status" aria-busy="true" aria-label={t("Loading")} />;
  if (!query.data) return <PageError compact error={query.error} onRetry={() => void query.refetch()} />;
  return <Offer token={token} offer={query.data} />;
}

function Offer({ token, offer }: { token: string; offer: InvitationPreview }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const navigate = useNavigate();
  const me = useQuery(whoQuery);
  const join = useMutation({
    mutationFn: () => acceptInvitation(token),
    onSuccess: ({ project }) => {
      sessionStorage.removeItem(KEPT_AS);
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      void cache.invalidateQueries({ queryKey: keys.me });
      void navigate({ to: "/projects/$name", params: { name: project } });
    },
  });
  return (
    <Stack gap="md">
      <div>
        <Text c="dimmed">{t("{{who}} invites you to", { who: offer.inviter_name })}</Text>
        <Title order={1} size="h2">
          {offer.title || offer.project}
        </Title>
        {offer.title !== "" && (
          <Text c="dimmed" size="sm" className="mono">
            {offer.project}
          </Text>
        )}
      </div>
      {offer.description !== "" && <Text style={{ whiteSpace: "pre-line" }}>{offer.description}</Text>}
      <Text size="sm">
        {offer.role === "manager"
          ? t("As a manager you invite others, set limits and see who uses what.")
          : t("As a member you start jobs in it, and see those of the others.")}
      </Text>
      {offer.open ? (
        <>
          <FormProblem error={join.error} />
          {me.data ? (
            <Button size="md" loading={join.isPending} onClick={() => join.mutate()} data-testid="join">
              {t("Join as {{name}}", { name: me.data.user.name })}
            </Button>
          ) : (
            <Button
              size="md"
              loading={me.isPending}
              renderRoot={(props) => <Link {...props} to="/login" search={{ next: "/invite" }} />}
              data-testid="join-login"
            >
              {t("Log in to join")}
            </Button>
          )}
          <Text size="xs" c="dimmed">
            {roleLabel(offer.role)} · {t("the link ends")} <RelativeTime at={offer.expires_at} />
          </Text>
        </>
      ) : (
        <>
          <FormProblem error={t("This invitation is over. Ask {{who}} for a new one.", { who: offer.inviter_name })} />
          <Button variant="default" renderRoot={(props) => <Link {...props} to="/" />}>
            {t("To the front page")}
          </Button>
        </>
      )}
    </Stack>
  );
}

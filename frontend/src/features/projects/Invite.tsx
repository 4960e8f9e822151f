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
import { RelativeTime } from "@/components/Time";
import { roleLabel } from "./projects";
import classes from "./Projects.module.css";

/** The logged-in user, or null. A missing login does not redirect to the login page. */
const currentUserQuery = queryOptions({
  queryKey: ["current-user"],
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

const STORAGE_KEY = "aitne-invitation";

/**
 * The secret after `#` in the URL. It is removed from the address bar and the history, and stored for this tab until
 * the login completes.
 */
function readToken(): string | null {
  const fragment = window.location.hash.slice(1);
  if (fragment !== "") {
    sessionStorage.setItem(STORAGE_KEY, fragment);
    window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search);
  }
  return sessionStorage.getItem(STORAGE_KEY);
}

/** Preview of an invitation with a button to join. */
export function InvitePage() {
  const { t } = useTranslation();
  useDocumentTitle(`${t("Invitation")} · Aitne`);
  const [token, setToken] = useState(readToken);
  useEffect(() => {
    const onHashChange = () => setToken(readToken());
    window.addEventListener("hashchange", onHashChange);
    return () => window.removeEventListener("hashchange", onHashChange);
  }, []);
  return (
    <main className={classes.invite}>
      <div className={`card ${classes.inviteCard ?? ""}`}>
        <Stack gap="lg">
          <Wordmark title="Aitne" />
          {token === null ? (
            <EmptyState icon={FolderOpen} title={t("No invitation")} heading>
              {t("Open the complete invitation link, including the part after #.")}
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
  if (!query.data) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  return <InvitationDetails token={token} invitation={query.data} />;
}

function InvitationDetails({ token, invitation }: { token: string; invitation: InvitationPreview }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const navigate = useNavigate();
  const me = useQuery(currentUserQuery);
  const join = useMutation({
    mutationFn: () => acceptInvitation(token),
    onSuccess: ({ project }) => {
      sessionStorage.removeItem(STORAGE_KEY);
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      void cache.invalidateQueries({ queryKey: keys.me });
      void navigate({ to: "/projects/$name", params: { name: project } });
    },
  });
  return (
    <Stack gap="md">
      <div>
        <Text c="dimmed">{t("{{who}} invites you to", { who: invitation.inviter_name })}</Text>
        <Title order={1} size="h2">
          {invitation.title || invitation.project}
        </Title>
        {invitation.title !== "" && (
          <Text c="dimmed" size="sm" className="mono">
            {invitation.project}
          </Text>
        )}
      </div>
      {invitation.description !== "" && <Text style={{ whiteSpace: "pre-line" }}>{invitation.description}</Text>}
      <Text size="sm">
        {invitation.role === "manager"
          ? t("Managers invite members, set limits and see the usage of each member.")
          : t("Members run jobs in this project and see the jobs of other members.")}
      </Text>
      {invitation.open ? (
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
            {roleLabel(invitation.role)} · {t("link expires")} <RelativeTime at={invitation.expires_at} />
          </Text>
        </>
      ) : (
        <>
          <FormProblem error={t("This invitation is no longer valid. Ask {{who}} for a new one.", { who: invitation.inviter_name })} />
          <Button variant="default" renderRoot={(props) => <Link {...props} to="/" />}>
            {t("Go to home page")}
          </Button>
        </>
      )}
    </Stack>
  );
}

import { Alert, Checkbox, Group, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { CircleCheck, CircleX } from "lucide-react";
import { type SubmitEvent, useState } from "react";
import { Trans, useTranslation } from "react-i18next";
import { confirmDeviceLogin } from "@/api/actions";
import { keys, meQuery } from "@/api/queries";
import { ChangeButton } from "@/components/ChangeButton";
import { FormProblem } from "@/components/FormProblem";
import { PageTitle } from "@/components/PageTitle";

const EXAMPLE = "BCD-FGH-JKL";

/** Confirms the login of a program that shows a code, such as `aitne login`. */
export function DevicePage() {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  const { code: given } = useSearch({ from: "/shell/device" });
  const [code, setCode] = useState(given ?? "");
  const [admin, setAdmin] = useState(false);
  const answer = useMutation({
    mutationFn: (approve: boolean) =>
      confirmDeviceLogin({ user_code: code.trim(), approve, scopes: ["read", "write", ...(admin ? (["admin"] as const) : [])], expires_in: "90d" }),
    onSuccess: () => void cache.invalidateQueries({ queryKey: keys.tokens }),
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    answer.mutate(true);
  };
  const empty = code.trim() === "";
  return (
    <>
      <PageTitle title={t("Log in from the command line")} />
      <section className="card" style={{ padding: 20, maxWidth: 560 }}>
        {answer.isSuccess ? (
          answer.variables ? (
            <Alert color="teal" icon={<CircleCheck size={18} />} role="status" title={t("Confirmed")} data-testid="device-confirmed">
              {t("Return to your terminal. The access token is valid for 90 days; you can revoke it under Account, Access tokens.")}
            </Alert>
          ) : (
            <Alert color="gray" icon={<CircleX size={18} />} role="status" title={t("Denied")} data-testid="device-refused">
              {t("The program gets no access.")}
            </Alert>
          )
        ) : (
          <form onSubmit={submit}>
            <Stack gap="md">
              <Text size="sm">
                <Trans
                  i18nKey="Compare the code with the one in your terminal. Confirm it only if you have started <code>aitne login</code> yourself: the program then acts as <strong>{{name}}</strong>."
                  values={{ name: me.user.name }}
                  components={{ code: <code />, strong: <strong /> }}
                />
              </Text>
              <FormProblem error={answer.error} id="device-error" />
              <TextInput
                label={t("Code")}
                placeholder={EXAMPLE}
                value={code}
                onChange={(event) => setCode(event.currentTarget.value.toUpperCase())}
                maxLength={40}
                required
                autoComplete="off"
                spellCheck={false}
                data-autofocus
                data-testid="device-code"
                styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", letterSpacing: "0.08em" } }}
              />
              {me.user.role === "admin" && (
                <Checkbox checked={admin} onChange={(event) => setAdmin(event.currentTarget.checked)} label={t("Admin: manage jobs and accounts of other users")} />
              )}
              <Group gap="sm">
                <ChangeButton type="submit" loading={answer.isPending} disabled={empty} data-testid="device-confirm">
                  {t("Confirm")}
                </ChangeButton>
                <ChangeButton variant="default" disabled={empty || answer.isPending} onClick={() => answer.mutate(false)} data-testid="device-refuse">
                  {t("Deny")}
                </ChangeButton>
              </Group>
            </Stack>
          </form>
        )}
      </section>
    </>
  );
}

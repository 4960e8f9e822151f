import { Alert, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { CircleCheck, CircleX } from "lucide-react";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { confirmDeviceLogin, lookUpDeviceLogin } from "@/api/actions";
import { ApiProblem } from "@/api/problem";
import { keys } from "@/api/queries";
import type { Scope } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { FormProblem } from "@/components/FormProblem";
import { PageTitle } from "@/components/PageTitle";
import { formatDuration } from "@/lib/time";
import { DeviceRequest } from "./DeviceRequest";

const EXAMPLE = "BCD-FGH-JKL";

/** Confirms the login of a program that shows a code, such as `aitne login`. The user types the code; no link fills it in. */
export function DevicePage() {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [code, setCode] = useState("");
  const lookUp = useMutation({ mutationFn: () => lookUpDeviceLogin(code.trim()) });
  const answer = useMutation({
    mutationFn: ({ approve, scopes }: { approve: boolean; scopes: Scope[] }) => confirmDeviceLogin({ user_code: code.trim(), approve, scopes }),
    onSuccess: () => void cache.invalidateQueries({ queryKey: keys.tokens }),
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    lookUp.mutate();
  };
  const request = lookUp.data;
  const mistyped = lookUp.error instanceof ApiProblem && lookUp.error.problems.some(({ field }) => field === "user_code");
  return (
    <>
      <PageTitle title={t("Log in from the command line")} />
      <section className="card" style={{ padding: 20, maxWidth: 560 }}>
        {answer.isSuccess && request !== undefined ? (
          answer.variables.approve ? (
            <Alert color="teal" icon={<CircleCheck size={18} />} role="status" title={t("Confirmed")} data-testid="device-confirmed">
              {t("Return to your terminal. The access token is valid for {{time}}; you can revoke it under Account, Access tokens.", {
                time: formatDuration(request.token_lifetime_s),
              })}
            </Alert>
          ) : (
            <Alert color="gray" icon={<CircleX size={18} />} role="status" title={t("Denied")} data-testid="device-refused">
              {t("The program gets no access.")}
            </Alert>
          )
        ) : request !== undefined ? (
          <DeviceRequest
            request={request}
            busy={answer.isPending}
            error={answer.error}
            onAnswer={(approve, scopes) => answer.mutate({ approve, scopes })}
          />
        ) : (
          <form onSubmit={submit}>
            <Stack gap="md">
              <Text size="sm">{t("Enter the code that your terminal shows. The next step shows which program asks for access.")}</Text>
              <FormProblem error={mistyped ? null : lookUp.error} id="device-error" />
              <TextInput
                label={t("Code")}
                placeholder={EXAMPLE}
                value={code}
                onChange={(event) => setCode(event.currentTarget.value.toUpperCase())}
                error={mistyped && t("This is no code of this platform. Compare each letter with your terminal.")}
                maxLength={40}
                required
                autoComplete="off"
                spellCheck={false}
                data-autofocus
                data-testid="device-code"
                styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", letterSpacing: "0.08em" } }}
              />
              <ChangeButton type="submit" loading={lookUp.isPending} disabled={code.trim() === ""} data-testid="device-continue">
                {t("Continue")}
              </ChangeButton>
            </Stack>
          </form>
        )}
      </section>
    </>
  );
}

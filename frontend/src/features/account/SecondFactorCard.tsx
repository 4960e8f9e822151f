import { Alert, Badge, Button, Group, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { ShieldCheck, ShieldPlus } from "lucide-react";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { ChangeButton } from "@/components/ChangeButton";
import { FormProblem } from "@/components/FormProblem";
import { Modal } from "@/components/Modal";
import { notifyDone, notifyProblem } from "@/components/notify";
import { RelativeTime } from "@/components/Time";
import {
  type Account,
  accountKeys,
  confirmSecondFactor,
  disableSecondFactor,
  type Enrolment,
  enrolSecondFactor,
  renewRecoveryCodes,
} from "./account";
import { CodeField } from "./CodeField";
import { Qr } from "./Qr";
import { RecoveryCodes } from "./RecoveryCodes";
import { useWait } from "./use-wait";

type Factor = Account["second_factor"];
type Task = { kind: "confirm"; enrolment: Enrolment } | { kind: "renew" } | { kind: "disable" };

/** The second factor: setup, recovery codes, removal. */
export function SecondFactorCard({ factor }: { factor: Factor }) {
  const { t } = useTranslation();
  const [task, setTask] = useState<Task | null>(null);
  const enrol = useMutation({
    mutationFn: enrolSecondFactor,
    onSuccess: (enrolment) => setTask({ kind: "confirm", enrolment }),
    onError: (error) => notifyProblem(t("The second factor was not set up"), error),
  });
  return (
    <section className="card" style={{ padding: 20 }}>
      <Group gap="xs" mb={4}>
        <Title order={2} size="h5">
          {t("Second factor")}
        </Title>
        {factor.enabled && (
          <Badge color="moon" variant="light" leftSection={<ShieldCheck size={12} />} data-testid="factor-on">
            {t("on")}
          </Badge>
        )}
      </Group>
      <Stack gap="md">
        <Text size="sm" c="dimmed">
          {t("Requires a one-time code in addition to your password. Access tokens and one-time links do not require it.")}
        </Text>
        {!factor.enabled && factor.required && (
          <Alert color="orange">{t("A second factor is required on this platform. You will set it up at your next login.")}</Alert>
        )}
        {factor.enabled ? (
          <>
            <Text size="sm">
              {factor.confirmed_at !== null && (
                <>
                  {t("Set up")} <RelativeTime at={factor.confirmed_at} />.{" "}
                </>
              )}
              {t("{{count}} recovery codes left.", { count: factor.recovery_codes_left })}
            </Text>
            <Group gap="xs">
              <ChangeButton variant="default" onClick={() => setTask({ kind: "renew" })} data-testid="factor-renew">
                {t("New recovery codes")}
              </ChangeButton>
              {!factor.required && (
                <ChangeButton variant="subtle" color="red" onClick={() => setTask({ kind: "disable" })} data-testid="factor-disable">
                  {t("Remove second factor")}
                </ChangeButton>
              )}
            </Group>
          </>
        ) : (
          <Group>
            <ChangeButton
              leftSection={<ShieldPlus size={17} />}
              loading={enrol.isPending}
              onClick={() => enrol.mutate()}
              data-testid="factor-begin"
            >
              {t("Set up second factor")}
            </ChangeButton>
          </Group>
        )}
      </Stack>
      <TaskModal task={task} onClose={() => setTask(null)} />
    </section>
  );
}

function TaskModal({ task, onClose }: { task: Task | null; onClose: () => void }) {
  const { t } = useTranslation();
  const titles = {
    confirm: t("Set up second factor"),
    renew: t("New recovery codes"),
    disable: t("Remove second factor"),
  };
  return (
    <Modal opened={task !== null} onClose={onClose} closeOnClickOutside={false} title={<strong>{task && titles[task.kind]}</strong>}>
      {task !== null && <TaskForm task={task} onDone={onClose} />}
    </Modal>
  );
}

function TaskForm({ task, onDone }: { task: Task; onDone: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [code, setCode] = useState("");
  const run = useMutation({
    mutationFn: async (): Promise<string[]> => {
      if (task.kind === "confirm") return confirmSecondFactor(code);
      if (task.kind === "renew") return renewRecoveryCodes(code);
      await disableSecondFactor(code);
      return [];
    },
    onSuccess: (codes) => {
      void cache.invalidateQueries({ queryKey: accountKeys.account });
      if (codes.length > 0) return;
      notifyDone(t("Second factor removed."));
      onDone();
    },
    onError: () => setCode(""),
  });
  const wait = useWait(run.error);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    run.mutate();
  };
  if (run.data !== undefined && run.data.length > 0) return <RecoveryCodes codes={run.data} onDone={onDone} />;
  return (
    <form onSubmit={submit}>
      <Stack gap="md">
        {task.kind === "confirm" && (
          <>
            <Text size="sm" c="dimmed">
              {t("Scan the QR code with an authenticator app, then enter the code.")}
            </Text>
            <Qr enrolment={task.enrolment} />
          </>
        )}
        {task.kind === "renew" && (
          <Text size="sm" c="dimmed">
            {t("Existing codes become invalid.")}
          </Text>
        )}
        {task.kind === "disable" && (
          <Text size="sm" c="dimmed">
            {t("You will then log in with your password only.")}
          </Text>
        )}
        <FormProblem error={run.error} wait={wait} id="factor-error" />
        <CodeField value={code} onChange={setCode} recovery={task.kind !== "confirm" && /[a-z]/i.test(code)} />
        <Button
          type="submit"
          loading={run.isPending}
          disabled={code.trim() === "" || wait > 0}
          color={task.kind === "disable" ? "red" : "indigo"}
          data-testid="factor-submit"
        >
          {task.kind === "disable" ? t("Remove") : t("Verify")}
        </Button>
      </Stack>
    </form>
  );
}

import { Button, Popover, Stack, Text, Title } from "@mantine/core";
import { KeyRound } from "lucide-react";
import { Trans, useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { CommandLine } from "@/components/CommandLine";
import { hostOf } from "./ssh-host";

/** Commands to connect to the job by SSH. */
export function SshHelp({ job }: { job: Job }) {
  const { t } = useTranslation();
  const host = hostOf(job);
  return (
    <Popover width={400} position="bottom-end" shadow="md" withinPortal trapFocus returnFocus>
      <Popover.Target>
        <Button variant="default" size="xs" leftSection={<KeyRound size={14} />}>
          {t("SSH")}
        </Button>
      </Popover.Target>
      <Popover.Dropdown maw="calc(100vw - 24px)" aria-label={t("SSH")}>
        <Stack gap={10}>
          <Title order={2} size="h5">
            {t("Connect from your computer")}
          </Title>
          <Text size="sm" c="dimmed">
            {t("Configure SSH (once):")}
          </Text>
          <CommandLine command="aitne ssh-config --write" />
          <Text size="sm" c="dimmed">
            {t("Open a shell, copy files, forward a port:")}
          </Text>
          <CommandLine command={`ssh ${host}`} />
          <CommandLine command={`rsync -a ${host}:results .`} />
          <CommandLine command={`ssh -N -L 6006:localhost:6006 ${host}`} />
          <Text size="sm" c="dimmed">
            <Trans
              i18nKey="In VS Code, select <b>Remote-SSH: Connect to Host…</b> and enter <code>{{host}}</code>."
              values={{ host }}
              components={{ b: <b />, code: <code /> }}
            />
          </Text>
          <Text size="sm" c="dimmed">
            {t("Open a shell without SSH:")}
          </Text>
          <CommandLine command={`aitne attach ${host.replace(/\.aitne$/, "")}`} />
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

import { Alert, Button, Group, SimpleGrid, Stack } from "@mantine/core";
import { Download } from "lucide-react";
import { useTranslation } from "react-i18next";
import { CopyButton } from "@/components/CopyButton";

/** Recovery codes, shown only once; `onDone` is called when the user has saved them. */
export function RecoveryCodes({ codes, onDone }: { codes: readonly string[]; onDone: () => void }) {
  const { t } = useTranslation();
  const text = codes.join("\n");
  return (
    <Stack gap="md">
      <Alert color="moon" title={t("Save these recovery codes")}>
        {t("Each code can be used once to log in without your device. The codes are shown only once.")}
      </Alert>
      <SimpleGrid cols={2} spacing={6} p="sm" style={{ background: "var(--well)", borderRadius: 8 }} data-testid="recovery-codes">
        {codes.map((code) => (
          <code key={code} style={{ fontFamily: "var(--mono)", fontSize: 14, textAlign: "center" }}>
            {code}
          </code>
        ))}
      </SimpleGrid>
      <Group gap="xs">
        <CopyButton what={t("recovery codes")} text={text}>
          {t("Copy")}
        </CopyButton>
        <Button
          component="a"
          href={`data:text/plain,${encodeURIComponent(`${text}\n`)}`}
          download="aitne-recovery-codes.txt"
          variant="default"
          size="xs"
          leftSection={<Download size={14} />}
        >
          {t("Download")}
        </Button>
      </Group>
      <Button onClick={onDone} data-testid="codes-kept">
        {t("I have saved the codes")}
      </Button>
    </Stack>
  );
}

import { SimpleGrid, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";

interface Props {
  from: string;
  until: string;
  /** What it means that there is no end. */
  endless: string;
  onChange: (change: { from?: string; until?: string }) => void;
}

/** From when until when something holds, in the reader's own zone. */
export function PeriodFields({ from, until, endless, onChange }: Props) {
  const { t } = useTranslation();
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
      <TextInput type="datetime-local" label={t("Begins")} description={t("Empty: now.")} value={from} onChange={(event) => onChange({ from: event.currentTarget.value })} />
      <TextInput type="datetime-local" label={t("Until")} description={endless} value={until} onChange={(event) => onChange({ until: event.currentTarget.value })} />
    </SimpleGrid>
  );
}

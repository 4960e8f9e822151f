import { SimpleGrid, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";

interface Props {
  from: string;
  until: string;
  /** Description of the end field: the meaning of an empty one. */
  endless: string;
  onChange: (change: { from?: string; until?: string }) => void;
}

/** Start and end of a period, in the browser's time zone. */
export function PeriodFields({ from, until, endless, onChange }: Props) {
  const { t } = useTranslation();
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
      <TextInput type="datetime-local" label={t("Start")} description={t("Leave blank to start now.")} value={from} onChange={(event) => onChange({ from: event.currentTarget.value })} />
      <TextInput type="datetime-local" label={t("End")} description={endless} value={until} onChange={(event) => onChange({ until: event.currentTarget.value })} />
    </SimpleGrid>
  );
}

import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";

/** States that the jobs of all users run as one account, where that is so: one user's job can read another's files. */
export function SharedAccountNote() {
  const { t } = useTranslation();
  const account = useQuery(meQuery).data?.platform.shared_account;
  if (account === undefined || account === null) return null;
  return (
    <Text size="sm" c="dimmed" mb="sm" data-testid="shared-account">
      <TriangleAlert size={14} aria-hidden style={{ verticalAlign: "-2px", marginInlineEnd: 6 }} />
      {t("All jobs run as {{account}} on this machine: users of this platform must trust each other.", { account })}
    </Text>
  );
}

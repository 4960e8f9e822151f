import { Group, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";

/** A page's heading; it is also the title of the browser tab. */
export function PageTitle({ title, children }: { title: string; children?: ReactNode }) {
  useDocumentTitle(`${title} · Aitne`);
  return (
    <Group justify="space-between" gap="md" mb="md" mih={36}>
      <Title order={1} size="h3">
        {title}
      </Title>
      {children}
    </Group>
  );
}

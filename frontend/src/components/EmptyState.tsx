import { Stack, Text, Title } from "@mantine/core";
import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";

interface Props {
  icon: LucideIcon;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  /** Whether the title is the heading of the page. */
  heading?: boolean;
}

export function EmptyState({ icon: Icon, title, children, action, heading }: Props) {
  return (
    <Stack align="center" gap={6} py={40} px="md" ta="center">
      <Icon size={34} strokeWidth={1.4} color="var(--mantine-color-indigo-4)" aria-hidden />
      {heading ? (
        <Title order={1} size="h3">
          {title}
        </Title>
      ) : (
        <Text fw={600}>{title}</Text>
      )}
      {children && (
        <Text c="dimmed" size="sm" maw={440}>
          {children}
        </Text>
      )}
      {action}
    </Stack>
  );
}

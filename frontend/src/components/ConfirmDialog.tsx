import { Button, Group, Modal, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

export interface ConfirmProps {
  opened: boolean;
  title: string;
  children: ReactNode;
  /** The button that does it. */
  action: string;
  keep?: string;
  busy?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

/** Asks before something that cannot be taken back. */
export function ConfirmDialog({ opened, title, children, action, keep, busy, onConfirm, onClose }: ConfirmProps) {
  const { t } = useTranslation();
  return (
    <Modal opened={opened} onClose={onClose} title={<strong>{title}</strong>} size="sm">
      <Text size="sm" component="div">
        {children}
      </Text>
      <Group justify="flex-end" mt="lg" gap="xs">
        <Button variant="default" onClick={onClose} data-autofocus data-testid="confirm-no">
          {keep ?? t("Keep it")}
        </Button>
        <Button color="red" loading={busy ?? false} onClick={onConfirm} data-testid="confirm-yes">
          {action}
        </Button>
      </Group>
    </Modal>
  );
}

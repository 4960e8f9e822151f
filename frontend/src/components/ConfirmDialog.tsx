import { Button, Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Modal } from "@/components/Modal";

export interface ConfirmProps {
  opened: boolean;
  title: string;
  children: ReactNode;
  /** Label of the button that confirms. */
  action: string;
  /** Label of the button that closes the dialog; the default is "Cancel". */
  keep?: string;
  busy?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

/** A confirmation dialog for an irreversible action. */
export function ConfirmDialog({ opened, title, children, action, keep, busy, onConfirm, onClose }: ConfirmProps) {
  const { t } = useTranslation();
  return (
    <Modal opened={opened} onClose={onClose} title={<strong>{title}</strong>} size="sm">
      <Text size="sm" component="div">
        {children}
      </Text>
      <Group justify="flex-end" mt="lg" gap="xs">
        <Button variant="default" onClick={onClose} data-autofocus data-testid="confirm-no">
          {keep ?? t("Cancel")}
        </Button>
        <Button color="red" loading={busy ?? false} onClick={onConfirm} data-testid="confirm-yes">
          {action}
        </Button>
      </Group>
    </Modal>
  );
}

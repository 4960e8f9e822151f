import { Button, Group, Modal, Text } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
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
export function Confirm({ opened, title, children, action, keep = "Keep it", busy, onConfirm, onClose }: Props) {
  return (
    <Modal opened={opened} onClose={onClose} title={<strong>{title}</strong>} size="sm">
      <Text size="sm" component="div">
        {children}
      </Text>
      <Group justify="flex-end" mt="lg" gap="xs">
        <Button variant="default" onClick={onClose} data-autofocus data-testid="confirm-no">
          {keep}
        </Button>
        <Button color="red" loading={busy ?? false} onClick={onConfirm} data-testid="confirm-yes">
          {action}
        </Button>
      </Group>
    </Modal>
  );
}

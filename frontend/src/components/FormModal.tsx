import { Stack } from "@mantine/core";
import type { ReactNode, SubmitEvent } from "react";
import { ChangeButton } from "@/components/ChangeButton";
import { FormProblem } from "@/components/FormProblem";
import { Modal } from "@/components/Modal";

interface Props {
  title: string;
  /** Label of the submit button. */
  action: string;
  testId?: string;
  size?: string;
  busy: boolean;
  disabled?: boolean;
  /** The error of the request, unless a field displays it. */
  error: unknown;
  onClose: () => void;
  onSubmit: () => void;
  children: ReactNode;
}

/** A dialog with a form and its submit button. */
export function FormModal({ title, action, testId, size = "md", busy, disabled = false, error, onClose, onSubmit, children }: Props) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onSubmit();
  };
  return (
    <Modal opened onClose={onClose} title={<strong>{title}</strong>} size={size}>
      <form onSubmit={submit}>
        <Stack gap="md">
          <FormProblem error={error} />
          {children}
          <ChangeButton type="submit" loading={busy} disabled={disabled} data-testid={testId}>
            {action}
          </ChangeButton>
        </Stack>
      </form>
    </Modal>
  );
}

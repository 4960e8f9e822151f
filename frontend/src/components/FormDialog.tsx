import { Button, Group, Stack } from "@mantine/core";
import type { ReactNode, SubmitEvent } from "react";
import { useTranslation } from "react-i18next";
import { ChangeButton } from "@/components/ChangeButton";
import { FormProblem } from "@/components/FormProblem";
import { Modal } from "@/components/Modal";

interface FormProps {
  /** Label of the submit button. */
  action: string;
  /** Colour of the submit button. */
  color?: string;
  testId?: string;
  busy: boolean;
  disabled?: boolean;
  /** The error of the request, unless a field displays it. */
  error: unknown;
  /** Whether a button closes the dialog, besides Escape and the cross. */
  cancels?: boolean;
  onClose: () => void;
  onSubmit: () => void;
  children: ReactNode;
}

interface Props extends FormProps {
  title: string;
  size?: string;
  /** Shown instead of the form after the request, such as a secret that is displayed once: only its buttons, Escape and the cross close it. */
  result?: ReactNode;
}

/** A dialog with a form and its submit button. */
export function FormDialog({ title, size = "md", result, ...form }: Props) {
  return (
    <Modal opened onClose={form.onClose} title={<strong>{title}</strong>} size={size} closeOnClickOutside={!result}>
      {result ? <Stack gap="md">{result}</Stack> : <DialogForm {...form} />}
    </Modal>
  );
}

/** The content of the dialog. */
export function DialogForm({ action, color, testId, busy, disabled = false, error, cancels = false, onClose, onSubmit, children }: FormProps) {
  const { t } = useTranslation();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onSubmit();
  };
  const button = (
    <ChangeButton type="submit" {...(color && { color })} loading={busy} disabled={disabled} data-testid={testId}>
      {action}
    </ChangeButton>
  );
  return (
    <form onSubmit={submit}>
      <Stack gap="md">
        <FormProblem error={error} />
        {children}
        {cancels ? (
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              {t("Cancel")}
            </Button>
            {button}
          </Group>
        ) : (
          button
        )}
      </Stack>
    </form>
  );
}

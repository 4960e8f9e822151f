import { TextInput } from "@mantine/core";
import type { Ref } from "react";
import { useTranslation } from "react-i18next";

interface Props {
  value: string;
  onChange: (value: string) => void;
  /** A recovery code instead of a one-time code. */
  recovery?: boolean;
  error?: string | undefined;
  ref?: Ref<HTMLInputElement>;
}

/** A field for a six-digit one-time code, with autofill, or for a recovery code. */
export function CodeField({ value, onChange, recovery = false, error, ref }: Props) {
  const { t } = useTranslation();
  return (
    <TextInput
      ref={ref}
      label={recovery ? t("Recovery code") : t("Code from your authenticator app")}
      placeholder={recovery ? undefined : "123456"}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={error}
      inputMode={recovery ? "text" : "numeric"}
      autoComplete="one-time-code"
      autoCapitalize="none"
      spellCheck={false}
      maxLength={recovery ? 20 : 7}
      required
      withAsterisk={false}
      size="md"
      data-autofocus
      data-testid="factor-code"
      styles={{ input: { fontFamily: "var(--mono)", letterSpacing: "0.12em" } }}
    />
  );
}

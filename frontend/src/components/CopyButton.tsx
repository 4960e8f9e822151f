import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { copyText } from "@/lib/clipboard";

interface Props {
  text: string | (() => string);
  /** Name of the copied text, for the tooltip and screen readers. */
  what: string;
  /** Text of the button; the default is an icon. */
  children?: string;
}

export function CopyButton({ text, what, children }: Props) {
  const { t } = useTranslation();
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = window.setTimeout(() => setCopied(false), 1_600);
    return () => window.clearTimeout(timer);
  }, [copied]);
  const copy = () => void copyText(typeof text === "string" ? text : text()).then(setCopied);
  const icon = copied ? <Check size={15} /> : <Copy size={15} />;
  if (children !== undefined) {
    return (
      <Button variant="default" size="xs" leftSection={icon} onClick={copy}>
        {copied ? t("Copied") : children}
      </Button>
    );
  }
  return (
    <Tooltip label={copied ? t("Copied") : t("Copy {{what}}", { what })}>
      <ActionIcon variant="subtle" color={copied ? "moon" : "gray"} size={26} aria-label={t("Copy {{what}}", { what })} onClick={copy}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
}

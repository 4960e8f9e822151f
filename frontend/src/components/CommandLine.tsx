import { useTranslation } from "react-i18next";
import { CopyButton } from "@/components/CopyButton";
import classes from "./CommandLine.module.css";

/** A shell command with a copy button. */
export function CommandLine({ command, what }: { command: string; what?: string }) {
  const { t } = useTranslation();
  return (
    <span className={classes.line}>
      <code className={classes.command}>{command}</code>
      <CopyButton what={what ?? t("the command")} text={command} />
    </span>
  );
}

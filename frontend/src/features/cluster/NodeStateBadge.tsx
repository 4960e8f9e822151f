import { Tooltip } from "@mantine/core";
import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";
import type { ClusterNode } from "@/api/types";
import { nodeLook } from "./nodes";
import classes from "@/components/StateBadge.module.css";

export function NodeStateBadge({ node, large = false }: { node: ClusterNode; large?: boolean }) {
  const { t } = useTranslation();
  const { label, tone } = nodeLook(node.state);
  return (
    <Tooltip label={t("Scheduler state: {{state}}", { state: node.scheduler_state ?? "" })} disabled={node.scheduler_state === null}>
      <span
        className={large ? `${classes.badge ?? ""} ${classes.large ?? ""}` : classes.badge}
        style={{ "--tone": `var(--${tone})`, "--tone-soft": `var(--${tone}-soft)` } as CSSProperties}
        data-testid="node-state"
      >
        <span className={classes.dot} />
        {t(label)}
      </span>
    </Tooltip>
  );
}

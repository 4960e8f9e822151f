import { Drawer } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { meQuery, nodesQuery } from "@/api/queries";
import type { Template } from "@/api/types";
import { LaunchForm } from "@/components/LaunchForm";
import { TemplateIcon } from "@/components/TemplateIcon";
import classes from "./LaunchDrawer.module.css";

interface Props {
  template: Template | null;
  onClose: () => void;
}

export function LaunchDrawer({ template, onClose }: Props) {
  const { data: me } = useSuspenseQuery(meQuery);
  const nodes = useQuery(nodesQuery);
  const narrow = useMediaQuery("(max-width: 640px)");
  // Kept while the drawer slides out, so that it does not empty before the eye.
  const [shown, setShown] = useState(template);
  if (template !== null && template !== shown) setShown(template);
  return (
    <Drawer
      opened={template !== null}
      onClose={onClose}
      position="right"
      size={narrow ? "100%" : 520}
      title={shown && <Heading template={shown} />}
      styles={{
        content: { display: "flex", flexDirection: "column", background: "var(--card)" },
        header: { background: "var(--card)", padding: narrow ? "14px 16px" : "18px 24px" },
        title: { minWidth: 0 },
        body: { flex: 1, minHeight: 0, padding: 0 },
      }}
    >
      {shown && (
        // A node list that comes in later must not reset what was typed: the form waits for it or for its failure.
        <LaunchForm
          key={`${shown.name}-${nodes.isPending ? "waiting" : "known"}`}
          template={shown}
          me={me}
          nodes={nodes.data?.items ?? []}
          onClose={onClose}
        />
      )}
    </Drawer>
  );
}

function Heading({ template }: { template: Template }) {
  const { t } = useTranslation();
  return (
    <span className={classes.head}>
      <TemplateIcon name={template.icon} session={template.type === "session"} />
      <span style={{ minWidth: 0 }}>
        <span className={classes.name}>{template.title}</span>
        <span className={classes.planSub}>{t("Version {{version}}", { version: template.version })}</span>
      </span>
    </span>
  );
}

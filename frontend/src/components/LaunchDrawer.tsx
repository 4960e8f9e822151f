import { Drawer } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { meQuery, nodesQuery } from "@/api/queries";
import type { Template } from "@/api/types";
import { LaunchForm } from "@/components/LaunchForm";
import { PanelSkeleton } from "@/components/PanelSkeleton";
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
  // The template stays during the closing transition of the drawer.
  const [displayed, setDisplayed] = useState(template);
  if (template !== null && template !== displayed) setDisplayed(template);
  return (
    <Drawer
      opened={template !== null}
      onClose={onClose}
      position="right"
      size={narrow ? "100%" : 520}
      title={displayed && <Heading template={displayed} />}
      styles={{
        content: { display: "flex", flexDirection: "column", background: "var(--card)" },
        header: { background: "var(--card)", padding: narrow ? "14px 16px" : "18px 24px" },
        title: { minWidth: 0 },
        body: { flex: 1, minHeight: 0, padding: 0 },
      }}
    >
      {displayed && nodes.isPending && (
        <div className={classes.scroll}>
          <PanelSkeleton rows={6} />
        </div>
      )}
      {displayed && !nodes.isPending && (
        // The form's defaults follow from the nodes, so it is mounted once they are loaded or have failed.
        <LaunchForm key={displayed.name} template={displayed} me={me} nodes={nodes.data?.items ?? []} onClose={onClose} />
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

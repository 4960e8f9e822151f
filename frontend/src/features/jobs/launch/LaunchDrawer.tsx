import { useMediaQuery } from "@mantine/hooks";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { lastLaunchQuery, type Preset } from "@/api/preferences";
import { meQuery, nodesQuery } from "@/api/queries";
import type { JobFile, Template } from "@/api/types";
import { Drawer } from "@/components/Drawer";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { TemplateIcon } from "@/components/TemplateIcon";
import { LaunchForm } from "./LaunchForm";
import classes from "./LaunchDrawer.module.css";

interface Props {
  template: Template | null;
  /** Values of the form; without one it has those of the template's last launch. */
  preset: Preset | undefined;
  onClose: () => void;
}

export function LaunchDrawer({ template, preset, onClose }: Props) {
  const { data: me } = useSuspenseQuery(meQuery);
  const nodes = useQuery(nodesQuery);
  const launches = useQuery(lastLaunchQuery);
  const narrow = useMediaQuery("(max-width: 640px)");
  // The template stays during the closing transition of the drawer.
  const [displayed, setDisplayed] = useState({ template, preset });
  if (template !== null && (template !== displayed.template || preset !== displayed.preset)) setDisplayed({ template, preset });
  const ready = !nodes.isPending && !launches.isPending;
  const last = launches.data?.items.find((item) => item.file.template === displayed.template?.name)?.file as JobFile | undefined;
  return (
    <Drawer
      opened={template !== null}
      onClose={onClose}
      position="right"
      size={narrow ? "100%" : 520}
      title={displayed.template && <Heading template={displayed.template} />}
      styles={{
        content: { display: "flex", flexDirection: "column", background: "var(--card)" },
        header: { background: "var(--card)", padding: narrow ? "14px 16px" : "18px 24px" },
        title: { minWidth: 0 },
        body: { flex: 1, minHeight: 0, padding: 0 },
      }}
    >
      {displayed.template && !ready && (
        <div className={classes.scroll}>
          <PanelSkeleton rows={6} />
        </div>
      )}
      {displayed.template && ready && (
        // The form's first values follow from the nodes and the last launch, so it is mounted once they are loaded or have failed.
        <LaunchForm
          key={`${displayed.template.name} ${displayed.preset?.name ?? ""}`}
          template={displayed.template}
          preset={displayed.preset}
          last={last}
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

import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { BackLink, PageHead } from "@/components/PageHead";
import { ToneBadge } from "@/components/ToneBadge";
import type { Tone } from "@/lib/states";
import classes from "@/components/Catalog.module.css";

interface Props {
  back: { to: "/images" | "/datasets"; title: string };
  icon: LucideIcon;
  entry: { name: string; version: string; description: string };
  look: { tone: Tone; label: string };
  /** Buttons of users with write access. */
  children?: ReactNode;
}

/** The top of the page of one version of an image or a dataset. */
export function CatalogHead({ back, icon: Icon, entry, look, children }: Props) {
  return (
    <PageHead
      back={<BackLink to={back.to}>{back.title}</BackLink>}
      icon={
        <span className={classes.mark}>
          <Icon size={24} strokeWidth={1.7} aria-hidden />
        </span>
      }
      title={`${entry.name} ${entry.version}`}
      badges={
        <ToneBadge tone={look.tone} dot>
          {look.label}
        </ToneBadge>
      }
      sub={entry.description}
    >
      {children}
    </PageHead>
  );
}

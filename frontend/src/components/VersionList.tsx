import { Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { ToneBadge } from "@/components/ToneBadge";
import type { Tone } from "@/lib/states";
import classes from "@/components/Catalog.module.css";

interface Props<T> {
  to: "/images/$name/$version" | "/datasets/$name/$version";
  current: string;
  versions: readonly T[];
  look: (version: T) => { label: string; tone: Tone };
}

/** The versions of an image or dataset, newest first. */
export function VersionList<T extends { name: string; version: string }>({ to, current, versions, look }: Props<T>) {
  const { t } = useTranslation();
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="versions-title">
      <Title order={2} size="h5" mb="xs" id="versions-title">
        {t("Versions")}
      </Title>
      <ul className={classes.versions}>
        {versions.map((each) => (
          <li key={each.version}>
            <Link
              to={to}
              params={{ name: each.name, version: each.version }}
              className={classes.version}
              aria-current={each.version === current ? "page" : undefined}
            >
              <span className="truncate">{each.version}</span>
              <ToneBadge tone={look(each).tone} dot>
                {look(each).label}
              </ToneBadge>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

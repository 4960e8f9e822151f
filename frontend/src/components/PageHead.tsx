import { Anchor, Title } from "@mantine/core";
import { Link, type LinkProps } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";
import type { ReactNode } from "react";
import classes from "./PageHead.module.css";

/** Link back to the list that contains the page's object; `further` holds more links of the same line. */
export function BackLink({ children, further, ...link }: Pick<LinkProps, "to" | "params" | "search"> & { children: ReactNode; further?: ReactNode }) {
  return (
    <div className={classes.back}>
      <Anchor size="sm" c="dimmed" renderRoot={(props) => <Link {...props} {...link} />}>
        <ArrowLeft size={14} aria-hidden /> {children}
      </Anchor>
      {further}
    </div>
  );
}

interface Props {
  back: ReactNode;
  icon?: ReactNode;
  title: ReactNode;
  badges?: ReactNode;
  /** Content below the title. */
  sub?: ReactNode;
  /** Buttons. */
  children?: ReactNode;
}

/** The head of an object's page: a job, an image, a project. */
export function PageHead({ back, icon, title, badges, sub, children }: Props) {
  return (
    <>
      {back}
      <div className={classes.head}>
        {icon}
        <div className={classes.title}>
          <div className={classes.name}>
            <Title order={1} size="h3">
              {title}
            </Title>
            {badges}
          </div>
          {sub && <div className={classes.sub}>{sub}</div>}
        </div>
        {children && <div className={classes.actions}>{children}</div>}
      </div>
    </>
  );
}

import { Menu, UnstyledButton } from "@mantine/core";
import { Link, useRouterState } from "@tanstack/react-router";
import { ChevronDown, Database } from "lucide-react";
import { useTranslation } from "react-i18next";
import { pagesOf } from "@/lib/pages";
import classes from "./Shell.module.css";

/** The main navigation: in the header, on phones at the bottom. */
export function Navigation() {
  const { t } = useTranslation();
  return (
    <nav className={classes.nav} aria-label={t("Main")}>
      {pagesOf("main").map(({ to, label, icon: Icon }) => (
        <Link key={to} to={to} className={classes.link} activeOptions={{ exact: to === "/", includeSearch: false }}>
          <Icon size={17} aria-hidden /> {t(label)}
        </Link>
      ))}
      <DataMenu />
    </nav>
  );
}

function DataMenu() {
  const { t } = useTranslation();
  const pages = pagesOf("data");
  const path = useRouterState({ select: (state) => state.location.pathname });
  const active = pages.some(({ to }) => path === to || path.startsWith(`${to}/`));
  return (
    <Menu position="bottom-start" width={200}>
      <Menu.Target>
        <UnstyledButton className={classes.link} data-here={active || undefined} data-testid="nav-data">
          <Database size={17} aria-hidden /> {t("Data")}
          <ChevronDown size={14} aria-hidden className={classes.chevron} />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        {pages.map(({ to, label, icon: Icon }) => (
          <Menu.Item key={to} leftSection={<Icon size={15} />} component={Link} to={to}>
            {t(label)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

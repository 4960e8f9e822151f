import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { PageTitle } from "@/components/PageTitle";
import { useSelectedInView } from "@/hooks/use-selected-in-view";
import { ACCOUNT_TABS } from "./tabs";
import classes from "./Account.module.css";

/** Layout of the account pages with their tabs. */
export function AccountPage() {
  const { t } = useTranslation();
  const strip = useSelectedInView<HTMLElement>(useLocation().pathname);
  return (
    <>
      <PageTitle title={t("Account")} />
      <nav ref={strip} className={`${classes.tabs ?? ""} strip`} aria-label={t("Account")}>
        {ACCOUNT_TABS.map(({ to, label, icon: Icon }) => (
          <Link key={to} to={to} className={classes.tab}>
            <Icon size={16} aria-hidden /> {t(label)}
          </Link>
        ))}
      </nav>
      <Outlet />
    </>
  );
}

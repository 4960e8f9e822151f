import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useSelectedInView } from "@/hooks/use-selected-in-view";
import { pagesOf } from "@/lib/pages";
import classes from "@/components/Admin.module.css";

/** Layout of the administration pages with their side navigation. */
export function AdminLayout() {
  const { t } = useTranslation();
  const strip = useSelectedInView<HTMLElement>(useLocation().pathname);
  return (
    <div className={classes.area}>
      <nav ref={strip} className={`${classes.side ?? ""} strip`} aria-label={t("Administration")}>
        {pagesOf("admin").map(({ to, label, icon: Icon }) => (
          <Link key={to} to={to} activeOptions={{ exact: to === "/admin", includeSearch: false }}>
            <Icon size={16} aria-hidden /> {t(label)}
          </Link>
        ))}
      </nav>
      <div>
        <Outlet />
      </div>
    </div>
  );
}

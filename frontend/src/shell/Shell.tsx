import { UnstyledButton } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { Search, ShieldCheck } from "lucide-react";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { Wordmark } from "@/components/Logo";
import { StaleBanner } from "@/components/StaleBanner";
import { ReauthenticationDialog } from "@/features/account/ReauthenticationDialog";
import { SchedulerBanner } from "@/features/platform/SchedulerBanner";
import { pagesOf } from "@/lib/pages";
import { LiveProvider } from "@/live/LiveProvider";
import { Navigation } from "@/shell/Navigation";
import { BANNERS, TOOLS } from "@/shell/slots";
import { useActivity } from "@/shell/use-activity";
import { useStoredAppearance } from "@/shell/use-appearance";
import { useShortcuts } from "@/hooks/use-shortcuts";
import { UserMenu } from "@/shell/UserMenu";
import classes from "./Shell.module.css";

const loadPalette = () => import("@/shell/Palette");
const Palette = lazy(async () => ({ default: (await loadPalette()).Palette }));
const KeyboardHelp = lazy(async () => ({ default: (await import("@/shell/KeyboardHelp")).KeyboardHelp }));

/** The frame of every page for logged-in users. */
export function Shell() {
  const { t, i18n } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const main = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const [searching, setSearching] = useState(false);
  const [helping, setHelping] = useState(false);
  useStoredAppearance();
  useActivity();
  useShortcuts({ role: me.user.role, onSearch: () => setSearching(true), onHelp: () => setHelping(true) });
  const first = useRef(true);
  useEffect(() => {
    // Moves the focus to a new page for screen readers; the browser announces the first page.
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
  }, [path]);
  return (
    <LiveProvider user={me.user.name}>
      <a className="skip-link" href="#content">
        {t("Skip to content")}
      </a>
      <header className={classes.header}>
        <div className={classes.bar}>
          <Link to="/" className={classes.brand} aria-label={t("{{title}}, home", { title: me.platform.title })}>
            <Wordmark title={me.platform.title} />
          </Link>
          <Navigation />
          <div className={classes.tools}>
            <UnstyledButton
              className={classes.search}
              onClick={() => setSearching(true)}
              onPointerEnter={() => void loadPalette()}
              aria-keyshortcuts="Control+K Meta+K"
              data-testid="search"
            >
              <Search size={16} aria-hidden />
              <span className={classes.searchText}>{t("Search")}</span>
              <kbd className={classes.kbd} aria-hidden>
                {IS_MAC ? "⌘ K" : "Ctrl K"}
              </kbd>
            </UnstyledButton>
            {me.user.role === "admin" && <AdminLink />}
            {TOOLS.map((Tool, index) => (
              <Tool key={index} />
            ))}
            <UserMenu onHelp={() => setHelping(true)} />
          </div>
        </div>
      </header>
      {BANNERS.map((Banner, index) => (
        <Banner key={index} />
      ))}
      <StaleBanner className={classes.stale ?? ""} />
      <SchedulerBanner className={classes.stale ?? ""} />
      <main id="content" ref={main} tabIndex={-1} className={classes.main}>
        {/* Another language remounts the page, which also updates texts composed by functions. */}
        <Outlet key={i18n.language} />
      </main>
      <ReauthenticationDialog />
      <Suspense fallback={null}>
        {searching && <Palette onClose={() => setSearching(false)} onHelp={() => setHelping(true)} />}
        {helping && <KeyboardHelp onClose={() => setHelping(false)} />}
      </Suspense>
    </LiveProvider>
  );
}

const IS_MAC = /mac|iphone|ipad/i.test(navigator.userAgent);

/** Link to the first page of the administration, which has its own navigation. */
function AdminLink() {
  const { t } = useTranslation();
  const firstPage = pagesOf("admin")[0];
  if (firstPage === undefined) return null;
  return (
    <Link to={firstPage.to} className={classes.admin} activeOptions={{ includeSearch: false }} data-testid="nav-admin">
      <ShieldCheck size={17} aria-hidden /> <span className={classes.adminText}>{t("Admin")}</span>
    </Link>
  );
}

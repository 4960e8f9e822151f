import { Avatar, Menu, Text, UnstyledButton, useMantineColorScheme } from "@mantine/core";
import { useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { Check, ChevronDown, FolderOpen, House, KeyRound, ListTree, LogOut, Monitor, Moon, Server, Sun, Users } from "lucide-react";
import { useEffect, useRef } from "react";
import { logout } from "@/api/actions";
import { meQuery } from "@/api/queries";
import type { Me } from "@/api/types";
import { Wordmark } from "@/components/Logo";
import { SchedulerBanner } from "@/components/SchedulerBanner";
import { StaleBanner } from "@/components/StaleBanner";
import { notifyProblem } from "@/components/notify";
import { LiveProvider } from "@/live/LiveProvider";
import classes from "./Shell.module.css";

/** Everything around a page for someone who is logged in. */
export function Shell() {
  const { data: me } = useSuspenseQuery(meQuery);
  const main = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const first = useRef(true);
  useEffect(() => {
    // A screen reader hears that another page is there; the first page is announced by the browser.
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
  }, [path]);
  return (
    <LiveProvider user={me.user.name}>
      <a className="skip-link" href="#content">
        Skip to the content
      </a>
      <header className={classes.header}>
        <div className={classes.bar}>
          <Link to="/" className={classes.brand} aria-label={`${me.platform.title}, front page`}>
            <Wordmark title={me.platform.title} />
          </Link>
          <nav className={classes.nav} aria-label="Main">
            <Link to="/" className={classes.link} activeOptions={{ exact: true, includeSearch: false }}>
              <House size={17} aria-hidden /> Home
            </Link>
            <Link to="/jobs" className={classes.link} activeOptions={{ includeSearch: false }}>
              <ListTree size={17} aria-hidden /> Jobs
            </Link>
            <Link to="/cluster" className={classes.link}>
              <Server size={17} aria-hidden /> Cluster
            </Link>
          </nav>
          <div className={classes.tools}>
            <UserMenu me={me} />
          </div>
        </div>
      </header>
      <StaleBanner className={classes.stale ?? ""} />
      <SchedulerBanner className={classes.stale ?? ""} />
      <main id="content" ref={main} tabIndex={-1} className={classes.main}>
        <Outlet />
      </main>
    </LiveProvider>
  );
}

const SCHEMES = [
  { value: "auto", label: "Like the system", icon: Monitor },
  { value: "light", label: "Light", icon: Sun },
  { value: "dark", label: "Dark", icon: Moon },
] as const;

function UserMenu({ me }: { me: Me }) {
  const { user, platform } = me;
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const cache = useQueryClient();
  const leave = async () => {
    try {
      await logout();
    } catch (error) {
      notifyProblem("You are still logged in", error);
      return;
    }
    cache.clear();
    // The sessions' origin has a login of its own; it ends there and leads back here.
    window.location.assign(`${platform.sessions_origin}/hub/logout`);
  };
  return (
    <Menu width={240}>
      <Menu.Target>
        <UnstyledButton className={classes.user} data-testid="user-menu">
          <Avatar size={28} color="indigo" variant="light" name={user.display_name || user.name} alt="" aria-hidden />
          <span className="visually-hidden">Account of </span>
          <span className={`${classes.userName ?? ""} truncate`}>{user.name}</span>
          <ChevronDown size={14} aria-hidden />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <div style={{ padding: "6px 12px 8px" }}>
          <Text size="sm" fw={600} truncate>
            {user.display_name || user.name}
          </Text>
          <Text size="xs" c="dimmed" truncate>
            {user.role === "admin" ? "Administrator" : "User"} · project {user.default_project}
          </Text>
        </div>
        <Menu.Divider />
        <Menu.Item leftSection={<FolderOpen size={15} />} component={Link} to="/projects">
          Projects
        </Menu.Item>
        <Menu.Item leftSection={<KeyRound size={15} />} component={Link} to="/tokens">
          Access tokens
        </Menu.Item>
        {user.role === "admin" && (
          <Menu.Item leftSection={<Users size={15} />} component={Link} to="/users">
            Users
          </Menu.Item>
        )}
        <Menu.Divider />
        <Menu.Label>Colours</Menu.Label>
        {SCHEMES.map(({ value, label, icon: Icon }) => (
          <Menu.Item
            key={value}
            leftSection={<Icon size={15} />}
            rightSection={colorScheme === value ? <Check size={15} aria-label="chosen" /> : null}
            onClick={() => setColorScheme(value)}
            data-testid={`scheme-${value}`}
          >
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item leftSection={<LogOut size={15} />} onClick={() => void leave()} data-testid="logout">
          Log out
        </Menu.Item>
        <Menu.Divider />
        <Text size="xs" c="dimmed" px={12} py={4}>
          {platform.title} {platform.version} · cluster {platform.cluster} · {platform.scheduler}
        </Text>
      </Menu.Dropdown>
    </Menu>
  );
}

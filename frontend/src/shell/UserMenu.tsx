import { Avatar, Menu, Text, UnstyledButton } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { BookOpen, Check, ChevronDown, CircleQuestionMark, Keyboard, LogOut, ShieldCheck } from "lucide-react";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { LANGUAGES } from "@/i18n";
import { pagesOf } from "@/lib/pages";
import { SCHEMES } from "@/shell/schemes";
import { useAppearance } from "@/shell/use-appearance";
import { useLogout } from "@/hooks/use-logout";
import classes from "./Shell.module.css";

export function UserMenu({ onHelp }: { onHelp: () => void }) {
  const { t, i18n } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const { user, platform } = me;
  const { colorScheme, setScheme, setLanguage } = useAppearance();
  const logout = useLogout();
  const checkIcon = <Check size={15} aria-label={t("selected")} />;
  return (
    <Menu width={250}>
      <Menu.Target>
        <UnstyledButton className={classes.user} data-testid="user-menu">
          <Avatar size={28} color="indigo" variant="light" name={user.display_name || user.name} alt="" aria-hidden />
          <span className="visually-hidden">{t("Account of")} </span>
          <span className={`${classes.userName ?? ""} truncate`}>{user.name}</span>
          <ChevronDown size={14} aria-hidden />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown className={classes.userDropdown}>
        <div style={{ padding: "6px 12px 8px" }}>
          <Text size="sm" fw={600} truncate>
            {user.display_name || user.name}
          </Text>
          <Text size="xs" c="dimmed" truncate>
            {t(user.role === "admin" ? "Administrator" : "User")} · {t("project {{name}}", { name: user.default_project })}
          </Text>
        </div>
        <Menu.Divider />
        {pagesOf("account").map(({ to, label, icon: Icon }) => (
          <Menu.Item key={to} leftSection={<Icon size={15} />} component={Link} to={to}>
            {t(label)}
          </Menu.Item>
        ))}
        {user.role === "admin" &&
          pagesOf("admin")
            .slice(0, 1)
            .map(({ to }) => (
              <Menu.Item key={to} leftSection={<ShieldCheck size={15} />} component={Link} to={to}>
                {t("Administration")}
              </Menu.Item>
            ))}
        <Menu.Item leftSection={<CircleQuestionMark size={15} />} component={Link} to="/help" data-testid="help">
          {t("Help")}
        </Menu.Item>
        {platform.documentation_url !== null && (
          <Menu.Item leftSection={<BookOpen size={15} />} component="a" href={platform.documentation_url} target="_blank" rel="noreferrer">
            {t("Documentation")}
          </Menu.Item>
        )}
        <Menu.Item leftSection={<Keyboard size={15} />} onClick={onHelp}>
          {t("Keyboard shortcuts")}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Label>{t("Theme")}</Menu.Label>
        {SCHEMES.map(({ value, label, icon: Icon }) => (
          <Menu.Item
            key={value}
            leftSection={<Icon size={15} />}
            rightSection={colorScheme === value ? checkIcon : null}
            onClick={() => setScheme(value)}
            data-testid={`scheme-${value}`}
          >
            {t(label)}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Label>{t("Language")}</Menu.Label>
        {LANGUAGES.map(({ value, label }) => (
          <Menu.Item
            key={value}
            lang={value}
            rightSection={i18n.language === value ? checkIcon : null}
            onClick={() => setLanguage(value)}
            data-testid={`language-${value}`}
          >
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item leftSection={<LogOut size={15} />} onClick={() => void logout()} data-testid="logout">
          {t("Log out")}
        </Menu.Item>
        <Menu.Divider />
        <Text size="xs" c="dimmed" px={12} py={4}>
          {platform.title} {platform.version} · {t("cluster {{name}}", { name: platform.cluster })} · {platform.scheduler}
        </Text>
      </Menu.Dropdown>
    </Menu>
  );
}

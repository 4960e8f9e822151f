import { Kbd, Switch } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Fragment, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { Modal } from "@/components/Modal";
import { pagesFor } from "@/lib/pages";
import { setSingleKeys, singleKeys } from "@/hooks/use-shortcuts";
import classes from "./KeyboardHelp.module.css";

/** The list of keyboard shortcuts. */
export function KeyboardHelp({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const [enabled, setEnabled] = useState(singleKeys);
  return (
    <Modal opened onClose={onClose} title={<strong>{t("Keyboard shortcuts")}</strong>}>
      <dl className={classes.keys}>
        <Row keys={["Ctrl", "K"]}>{t("Search and commands")}</Row>
        {enabled && (
          <>
            <Row keys={["/"]}>{t("Search and commands")}</Row>
            <Row keys={["?"]}>{t("Show keyboard shortcuts")}</Row>
            {pagesFor(me.user.role).map(
              ({ to, label, letter, area }) =>
                letter !== undefined && (
                  <Row key={to} keys={["g", letter]}>
                    {t("Go to {{page}}", { page: area === "admin" ? t("Administration") : t(label) })}
                  </Row>
                ),
            )}
            <Row keys={["j", "k"]}>{t("Next and previous row of the jobs table")}</Row>
            <Row keys={["x"]}>{t("Select the row of the jobs table; Enter opens it")}</Row>
            <Row keys={["n", "N"]}>{t("Next and previous match in a log")}</Row>
            <Row keys={["e"]}>{t("Jump to the error in a log")}</Row>
          </>
        )}
        <Row keys={["Esc"]}>{t("Close a dialog or menu")}</Row>
        <Row keys={["Tab"]}>{t("Move to the next control; the first Tab skips to the content")}</Row>
      </dl>
      <Switch
        mt="md"
        checked={enabled}
        onChange={(event) => {
          setSingleKeys(event.currentTarget.checked);
          setEnabled(event.currentTarget.checked);
        }}
        label={t("Single-key shortcuts")}
      />
    </Modal>
  );
}

function Row({ keys, children }: { keys: string[]; children: ReactNode }) {
  return (
    <div>
      <dt>
        {keys.map((name, index) => (
          <Fragment key={name}>
            {index > 0 && " "}
            <Kbd>{name}</Kbd>
          </Fragment>
        ))}
      </dt>
      <dd>{children}</dd>
    </div>
  );
}

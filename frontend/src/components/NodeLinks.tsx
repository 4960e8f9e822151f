import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import classes from "./NodeLinks.module.css";

/** As many names are shown where there are more than one more. */
const FEW = 2;

/** Nodes by name, each a link to its page; `short`: at most three of them. */
export function NodeLinks({ nodes, short = false }: { nodes: readonly string[]; short?: boolean }) {
  const { t } = useTranslation();
  const shown = short && nodes.length > FEW + 1 ? nodes.slice(0, FEW) : nodes;
  return (
    <>
      {shown.map((name, index) => (
        <span key={name}>
          {index > 0 && ", "}
          <Link to="/cluster/nodes/$name" params={{ name }} className={classes.link} preload={false}>
            {name}
          </Link>
        </span>
      ))}
      {shown.length < nodes.length && ` ${t("and {{count}} more", { count: nodes.length - shown.length })}`}
    </>
  );
}

import {
  BookOpenText,
  Boxes,
  BrainCircuit,
  ChartLine,
  CodeXml,
  Database,
  FlaskConical,
  type LucideIcon,
  NotebookPen,
  SquareTerminal,
} from "lucide-react";
import type { CSSProperties } from "react";

/** The icon set that templates choose from by name. */
export const ICONS: Record<string, LucideIcon> = {
  notebook: NotebookPen,
  terminal: SquareTerminal,
  brain: BrainCircuit,
  code: CodeXml,
  chart: ChartLine,
  data: Database,
  flask: FlaskConical,
  book: BookOpenText,
  boxes: Boxes,
};

interface Props {
  name: string | undefined;
  session: boolean;
  size?: number;
}

export function TemplateIcon({ name, session, size = 40 }: Props) {
  const Icon = ICONS[name ?? ""] ?? (session ? NotebookPen : SquareTerminal);
  const style: CSSProperties = {
    display: "grid",
    placeItems: "center",
    width: size,
    height: size,
    flex: "none",
    borderRadius: size / 4,
    color: session ? "var(--good)" : "var(--active)",
    background: session ? "var(--good-soft)" : "var(--active-soft)",
  };
  return (
    <span style={style} aria-hidden>
      <Icon size={size * 0.52} strokeWidth={1.8} />
    </span>
  );
}

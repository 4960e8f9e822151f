import type { Image } from "@/api/catalog";
import { ToneBadge } from "@/components/ToneBadge";
import { runtimeTitle } from "@/lib/runtimes";
import classes from "@/components/Picker.module.css";

/** The runtimes of an image and its GPU requirement. */
export function ImageBadges({ image }: { image: Pick<Image, "artifacts" | "needs"> }) {
  return (
    <span className={classes.badges}>
      {image.artifacts.map(({ runtime }) => (
        <ToneBadge key={runtime} tone="neutral">
          {runtimeTitle(runtime)}
        </ToneBadge>
      ))}
      {image.needs.cuda !== null && <ToneBadge tone="active">{`GPU · CUDA ${image.needs.cuda}`}</ToneBadge>}
    </span>
  );
}

import { useTranslation } from "react-i18next";
import classes from "./Login.module.css";

/** The illustration beside the login forms. */
export function LoginArt() {
  const { t } = useTranslation();
  return (
    <aside className={classes.art} aria-hidden="true">
      <Sky />
      <p className={classes.claim}>{t("Launch a notebook in two clicks.")}</p>
      <p className={classes.small}>
        {t("Notebooks and training jobs on your cluster, with free resources, queue status and pending reasons at a glance.")}
      </p>
    </aside>
  );
}

const STARS = Array.from({ length: 70 }, (_, i) => ({
  // A fixed pattern: multiples of the golden ratio are evenly spread.
  x: ((i * 0.618034) % 1) * 800,
  y: ((i * 0.754877) % 1) * 900,
  r: 0.6 + (i % 5) * 0.28,
}));

function Sky() {
  return (
    <svg viewBox="0 0 800 900" preserveAspectRatio="xMidYMid slice">
      {STARS.map((star) => (
        <circle key={star.x} cx={star.x} cy={star.y} r={star.r} fill="#fff" opacity={0.18 + star.r / 5} />
      ))}
      <g transform="translate(150 80)" fill="none">
        <circle cx="300" cy="300" r="92" fill="#5a69c9" />
        <path d="M229 358a92 92 0 0 0 160-33 128 128 0 0 1-160 33Z" fill="#1d2356" opacity=".5" />
        <g transform="rotate(-24 300 300)" stroke="#8f9cf0" strokeWidth="1.4">
          <ellipse cx="300" cy="300" rx="190" ry="70" opacity=".75" />
          <ellipse cx="300" cy="300" rx="262" ry="98" opacity=".4" />
          <ellipse cx="300" cy="300" rx="340" ry="128" opacity=".2" />
        </g>
        <circle cx="459" cy="196" r="11" fill="#3fd0b6" />
        <circle cx="76" cy="436" r="7" fill="#c3cbfa" />
        <circle cx="602" cy="120" r="5" fill="#f0c674" />
      </g>
    </svg>
  );
}

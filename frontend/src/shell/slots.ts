/** Components that other parts of the portal add to every page. */
import type { ComponentType } from "react";
import { Bell } from "@/features/notifications/Bell";
import { AnnouncementBanner } from "@/features/platform/AnnouncementBanner";
import { MaintenanceBanner } from "@/features/platform/MaintenanceBanner";
import { ImpersonationBanner } from "@/features/users/ImpersonationBanner";

/** Above the page, from the top down: impersonation, maintenance, announcements. Each renders nothing without content. */
export const BANNERS: readonly ComponentType[] = [ImpersonationBanner, MaintenanceBanner, AnnouncementBanner];

/** In the header, before the user's menu. */
export const TOOLS: readonly ComponentType[] = [Bell];

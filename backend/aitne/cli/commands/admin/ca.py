"""``admin ca``: the platform's certificate authority."""

from __future__ import annotations

from pathlib import Path

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.shared_options import DataDir, Json


@group("admin ca")
def authority() -> None:
    """Manage the platform's certificate authority (CA), for [tls]."""


@authority.command(
    "init", epilog=examples("aitne admin ca init\naitne admin ca init --json | jq -r .certificate")
)
def init(as_json: Json = False, data_dir: DataDir = None) -> int:
    """Create the platform's CA, or show the existing one.

    `aitne up` also does this with `tls.enabled`. Install the certificate in browsers and on the
    machines that run the command line; the key stays in the secrets folder.
    """
    # The settings and cryptography are heavier than everything else here.
    from aitne.local_system.settings_loader import load_settings
    from aitne.services.platform.certificate_authorities import authority_file, open_authority
    from aitne.supervisor.per_user_accounts import acting_as_platform

    settings = load_settings(None if data_dir is None else Path(data_dir))
    with acting_as_platform(settings):
        ca = open_authority(settings)
    path, expires = authority_file(settings), ca.certificate.not_valid_after_utc
    if as_json:
        output.print_json(
            {
                "certificate": str(path),
                "fingerprint": ca.fingerprint,
                "expires_at": expires.isoformat(),
            }
        )
        return 0
    output.print_line(str(path))
    output.print_message(f"SHA-256     {ca.fingerprint}")
    output.print_message(f"Expires     {expires:%Y-%m-%d}")
    if not settings.tls.enabled:
        output.print_message("Set `enabled = true` in the [tls] section of aitne.toml to use it.")
    return 0

"""Energy of jobs: of the CPUs in each sample, and of the nodes according to accounting."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("samples", sa.Column("cpu_energy_j", sa.Float()))
    op.add_column("jobs", sa.Column("energy_j", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("jobs", "energy_j")
    op.drop_column("samples", "cpu_energy_j")

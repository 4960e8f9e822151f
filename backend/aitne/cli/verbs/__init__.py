"""What the quick verbs do. These modules import no more than they need."""

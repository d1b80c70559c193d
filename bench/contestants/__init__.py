"""Who is compared: each behind the same few verbs, with its settings and versions in the open."""

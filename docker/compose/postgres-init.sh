#!/bin/bash
# First run only: the shop's owner, and the role that Tidegate uses, by the script of the security guide.
set -e
ROLE_PASSWORD="$(cat /run/tidegate/shop.password)" psql -v ON_ERROR_STOP=1 -q -U "$POSTGRES_USER" -d postgres <<'SQL'
\set password `printf %s "$ROLE_PASSWORD"`
CREATE ROLE shop LOGIN PASSWORD :'password';
ALTER DATABASE shop OWNER TO shop;
SQL
ROLE_PASSWORD="$(cat /run/tidegate/tidegate.password)" psql -v ON_ERROR_STOP=1 -q -U "$POSTGRES_USER" -d "$POSTGRES_DB" \
  -v role=tidegate -v schema=public -v owner=shop -f /opt/tidegate/role.sql

#!/bin/bash
# First run only: the shop's owner, and the role that Tidegate uses, by the script of the security guide.
set -e
psql -v ON_ERROR_STOP=1 -q -U "$POSTGRES_USER" -d postgres \
  -v password="$(cat /run/tidegate/shop.password)" <<'SQL'
CREATE ROLE shop LOGIN PASSWORD :'password';
ALTER DATABASE shop OWNER TO shop;
SQL
psql -v ON_ERROR_STOP=1 -q -U "$POSTGRES_USER" -d "$POSTGRES_DB" -v role=tidegate -v schema=public -v owner=shop \
  -v password="$(cat /run/tidegate/tidegate.password)" -f /opt/tidegate/role.sql

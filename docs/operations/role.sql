-- The least that Tidegate needs of a PostgreSQL server, 10 and later. Run it as a superuser (or as the administrator
-- that a managed service gives you), in the database that is to be streamed:
--
--   ROLE_PASSWORD=… psql -v role=tidegate -v schema=public -v owner=shop -d shop -f role.sql
--
-- The password comes from the environment: what stands in a command line is read by everyone who lists processes.
-- The role may replicate, log in, connect here and read the schema's tables; it owns nothing and creates nothing. The
-- publication is made by the tables' owner: CREATE PUBLICATION shop FOR TABLE …; and is named in source.publication.
-- Where a managed service keeps REPLICATION to itself, leave the word out and grant its role: GRANT rds_replication TO …
-- SELECT is needed by snapshots and by `tidegate doctor` alone: streaming reads the WAL, not the tables. Where policies hide
-- rows of a published table from the role, snapshots are refused without BYPASSRLS: they would read a part of it.
-- The limit of sessions is for 16 snapshot.connections, the most there may be, 4 of the reader beside them, and 12 for another
-- reader that takes over, the admin API and `tidegate doctor`.
\set ON_ERROR_STOP on
\set password `printf %s "$ROLE_PASSWORD"`
SELECT :'password' = '' AS has_none \gset
\if :has_none
  DO $$ BEGIN RAISE 'give the new role its password in the environment: ROLE_PASSWORD'; END $$;
\endif

CREATE ROLE :"role" LOGIN REPLICATION NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password'
  CONNECTION LIMIT 32;

SELECT format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), :'role') \gexec
GRANT USAGE ON SCHEMA :"schema" TO :"role";
GRANT SELECT ON ALL TABLES IN SCHEMA :"schema" TO :"role";
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA :"schema" GRANT SELECT ON TABLES TO :"role";

-- A snapshot or a look at the catalogue that hangs must not hold back VACUUM.
ALTER ROLE :"role" SET idle_in_transaction_session_timeout = '10min';
ALTER ROLE :"role" SET lock_timeout = '10s';

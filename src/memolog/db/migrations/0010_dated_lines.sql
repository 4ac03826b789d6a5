-- Few lines of a log speak of a day. Those whose day has passed are asked for whenever the log or the date has changed.
CREATE INDEX observations_about ON observations (group_pk, about) WHERE about IS NOT NULL;

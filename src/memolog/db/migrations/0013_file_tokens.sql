-- The tokens of the large files of a message: as counted when it was saved, and as the provider reported them. They are part of
-- `tokens`, which stays as counted. NULL means that the message has no large file, or that nothing was reported.
ALTER TABLE messages ADD COLUMN file_tokens BIGINT CHECK (file_tokens >= 0);
ALTER TABLE messages ADD COLUMN reported_file_tokens BIGINT CHECK (reported_file_tokens >= 0);

-- schema --
CREATE TABLE IF NOT EXISTS eval_setup (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS eval_histories (
  id TEXT PRIMARY KEY, raw_tokens INTEGER NOT NULL, log_tokens INTEGER NOT NULL, seconds REAL NOT NULL, problem TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS eval_answers (
  question TEXT NOT NULL, arm TEXT NOT NULL, reader TEXT NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL,
  searches INTEGER NOT NULL, evidence TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (question, arm, reader)
);
CREATE TABLE IF NOT EXISTS eval_verdicts (
  question TEXT NOT NULL, arm TEXT NOT NULL, reader TEXT NOT NULL, judge TEXT NOT NULL, score REAL, why TEXT NOT NULL,
  votes TEXT NOT NULL, PRIMARY KEY (question, arm, reader, judge)
);
CREATE TABLE IF NOT EXISTS eval_calls (
  role TEXT NOT NULL, history TEXT NOT NULL, question TEXT NOT NULL, arm TEXT NOT NULL, model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost REAL NOT NULL
);

-- take_lock --
BEGIN EXCLUSIVE;

-- put_setup --
INSERT OR IGNORE INTO eval_setup (name, value) VALUES (:name, :value);

-- setup --
SELECT name, value FROM eval_setup;

-- put_history --
INSERT OR REPLACE INTO eval_histories (id, raw_tokens, log_tokens, seconds, problem)
VALUES (:id, :raw_tokens, :log_tokens, :seconds, :problem);

-- histories --
SELECT id, raw_tokens, log_tokens, seconds, problem FROM eval_histories;

-- put_answer --
INSERT OR REPLACE INTO eval_answers (question, arm, reader, text, tokens, searches, evidence, seconds)
VALUES (:question, :arm, :reader, :text, :tokens, :searches, :evidence, :seconds);

-- answers --
SELECT question, arm, text, tokens, searches, evidence, seconds FROM eval_answers WHERE reader = :reader;

-- put_verdict --
INSERT OR REPLACE INTO eval_verdicts (question, arm, reader, judge, score, why, votes)
VALUES (:question, :arm, :reader, :judge, :score, :why, :votes);

-- verdicts --
SELECT question, arm, score, why, votes FROM eval_verdicts WHERE reader = :reader AND judge = :judge;

-- put_call --
INSERT INTO eval_calls (role, history, question, arm, model, input_tokens, output_tokens, cost)
VALUES (:role, :history, :question, :arm, :model, :input_tokens, :output_tokens, :cost);

-- spent --
SELECT COALESCE(SUM(cost), 0) FROM eval_calls;

-- calls --
SELECT role, arm, model, COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cost) FROM eval_calls GROUP BY role, arm, model;

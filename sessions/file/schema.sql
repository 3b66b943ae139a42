-- The schema of a saved session, version 1 (PRAGMA user_version; the application_id is 'LLMI').
-- docs/sessions.md explains it and lists queries to start from. People read the views at the end;
-- the tables above them are laid out for size. Times are milliseconds, entropies and
-- log-probabilities nats, booleans 0 or 1.

-- One row: what this file is.
CREATE TABLE session (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    title TEXT NOT NULL,
    created TEXT NOT NULL,          -- UTC, ISO 8601
    closed TEXT,                    -- null while it is being written, and after a crash
    writer TEXT NOT NULL,           -- the program's name and version
    full_logits INTEGER NOT NULL
) STRICT;

-- Each vocabulary entry that the run touched, once. The key is the id. Where an id stands for other
-- bytes in another place (the space before a first word), the second reading gets a key below 0.
CREATE TABLE token (
    key INTEGER PRIMARY KEY,
    id INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    kind INTEGER NOT NULL           -- 0 normal, 1 special, 2 added, 3 byte, 4 unused
) STRICT;

-- One row: the prompt. The root of the tree, node 0, stands for all of it.
CREATE TABLE prompt (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    text ANY NOT NULL,              -- a blob where it is not valid Unicode
    chat INTEGER NOT NULL,
    tokenize_ms REAL NOT NULL,
    notes TEXT NOT NULL,            -- JSON
    extra TEXT                      -- JSON: what later versions of the program add
) STRICT;

CREATE TABLE prompt_token (
    position INTEGER PRIMARY KEY,
    token INTEGER NOT NULL REFERENCES token (key),
    origin TEXT NOT NULL
) STRICT;

-- A chain of sampler stages, stored once however many steps used it.
CREATE TABLE chain (
    id INTEGER PRIMARY KEY,
    spec TEXT NOT NULL,
    preset TEXT NOT NULL            -- the stack whose rules it follows
) STRICT;

CREATE TABLE chain_stage (
    chain INTEGER NOT NULL REFERENCES chain (id),
    stage INTEGER NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    params TEXT NOT NULL,           -- JSON
    off INTEGER NOT NULL,
    divisor REAL,                   -- what the stage divides the logits by; null: leaves them
    PRIMARY KEY (chain, stage)
) STRICT, WITHOUT ROWID;

-- One row a node but the root: one token, how it came about and what it cost.
CREATE TABLE step (
    node INTEGER PRIMARY KEY CHECK (node > 0),
    parent INTEGER NOT NULL CHECK (parent >= 0 AND parent < node),
    position INTEGER NOT NULL,
    token INTEGER NOT NULL REFERENCES token (key),
    how TEXT NOT NULL,
    u REAL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    raw_logprob REAL NOT NULL,
    final_prob REAL NOT NULL,
    rank INTEGER NOT NULL,
    entropy_raw REAL NOT NULL,
    entropy_final REAL NOT NULL,
    log_z_raw REAL NOT NULL,
    varentropy_raw REAL NOT NULL,
    weight_sum REAL,                -- sum of exp(logit - largest logit); see docs/sessions.md
    raw_logprobs BLOB,              -- float64, where logit - log_z_raw does not tell them
    raw_probs BLOB,                 -- float64, where the logits do not tell them
    chain INTEGER NOT NULL REFERENCES chain (id),
    seed ANY NOT NULL,              -- text where it does not fit in 64 bits
    forward_ms REAL NOT NULL,
    sample_ms REAL NOT NULL,
    detokenize_ms REAL NOT NULL,
    other_ms REAL NOT NULL,
    total_ms REAL NOT NULL,
    warmup INTEGER NOT NULL,
    reused INTEGER NOT NULL,
    reread INTEGER NOT NULL,
    kv_seen INTEGER NOT NULL,
    kv_stored INTEGER NOT NULL,
    kv_bytes INTEGER,
    kv_computed INTEGER NOT NULL,
    kv_cached INTEGER NOT NULL,
    kv_block_size INTEGER NOT NULL,
    stop_kind TEXT,
    stop_detail TEXT,
    extra TEXT,                     -- JSON: what later versions of the program add
    CHECK (raw_logprob < 1e300),    -- minus infinity is a forced token that the model rules out
    CHECK (max(abs(low), abs(high), abs(final_prob), abs(entropy_raw), abs(entropy_final),
               abs(log_z_raw), abs(varentropy_raw)) < 1e300),
    CHECK (min(forward_ms, sample_ms, detokenize_ms, other_ms, total_ms) >= 0),
    CHECK (max(forward_ms, sample_ms, detokenize_ms, other_ms, total_ms) < 1e300)
) STRICT;

-- What each stage did at each step. at = node * 128 + stage.
CREATE TABLE stage_result (
    at INTEGER PRIMARY KEY,
    survivors INTEGER NOT NULL,
    mass_removed REAL NOT NULL,
    entropy_before REAL,            -- null: the entropy after the stage before
    entropy REAL NOT NULL,
    log_z REAL NOT NULL,
    weight_sum REAL,
    logits BLOB,                    -- float32, where the chain does not tell the logits
    probs BLOB,                     -- float64, where the logits do not tell the probabilities
    CHECK (max(abs(mass_removed), abs(entropy), abs(log_z)) < 1e300),
    CHECK (abs(entropy_before) < 1e300)
) STRICT;

-- The leading candidates of each step, in the model's order. at = node * 4096 + row.
CREATE TABLE candidate (
    at INTEGER PRIMARY KEY,
    token INTEGER NOT NULL REFERENCES token (key),
    raw_logit REAL CHECK (abs(raw_logit) < 3.5e38),  -- a float32; null: minus infinity
    final_prob REAL CHECK (final_prob BETWEEN 0 AND 1.001),  -- null: cut
    cut_by INTEGER,                 -- the stage that cut it, -2 for the model; null: it survived
    rank INTEGER                    -- null: row + 1
) STRICT;

-- Whole logit vectors of steps, only in a file with full_logits.
CREATE TABLE logits (
    node INTEGER PRIMARY KEY REFERENCES step (node),
    width INTEGER NOT NULL,         -- bytes a value: 2 for float16, 4 for float32
    vector BLOB NOT NULL
) STRICT;

-- Everything else, in order: the model's facts, settings, prefills, states, errors.
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    after_node INTEGER NOT NULL,    -- the newest node when it came
    kind TEXT NOT NULL,             -- the record's name in engine/records.py
    body TEXT NOT NULL              -- its fields, JSON
) STRICT;

CREATE VIEW prompt_tokens AS
SELECT p.position, t.id AS token_id, CAST(t.bytes AS TEXT) AS text, hex(t.bytes) AS bytes, p.origin
FROM prompt_token AS p JOIN token AS t ON t.key = p.token;

CREATE VIEW tokens AS
SELECT
    s.node, s.parent, s.position, t.id AS token_id, CAST(t.bytes AS TEXT) AS text,
    hex(t.bytes) AS bytes,
    CASE t.kind
        WHEN 1 THEN 'special' WHEN 2 THEN 'added' WHEN 3 THEN 'byte' WHEN 4 THEN 'unused'
        ELSE 'normal'
    END AS kind,
    s.how, s.u, s.raw_logprob, s.final_prob, s.rank, s.entropy_raw, s.entropy_final,
    s.seed, c.preset, c.spec AS chain, s.forward_ms, s.sample_ms, s.total_ms, s.warmup, s.reused, s.reread,
    s.kv_stored, s.kv_bytes, s.kv_computed, s.kv_cached, s.stop_kind, s.stop_detail
FROM step AS s JOIN token AS t ON t.key = s.token JOIN chain AS c ON c.id = s.chain;

CREATE VIEW stages AS
SELECT
    s.node, r.at - s.node * 128 AS stage, c.name, c.label, c.params, c.off, r.survivors,
    r.mass_removed, r.entropy, r.log_z
FROM step AS s
JOIN stage_result AS r ON r.at BETWEEN s.node * 128 AND s.node * 128 + 127
JOIN chain_stage AS c ON c.chain = s.chain AND c.stage = r.at - s.node * 128;

CREATE VIEW candidates AS
SELECT
    s.node, s.position, coalesce(k.rank, k.at - s.node * 4096 + 1) AS rank, t.id AS token_id,
    CAST(t.bytes AS TEXT) AS text, hex(t.bytes) AS bytes, k.raw_logit,
    k.raw_logit - s.log_z_raw AS raw_logprob, coalesce(k.final_prob, 0.0) AS final_prob,
    CASE WHEN k.cut_by = -2 THEN 'model' ELSE c.name END AS cut_by, k.token = s.token AS chosen
FROM step AS s
JOIN candidate AS k ON k.at BETWEEN s.node * 4096 AND s.node * 4096 + 4095
JOIN token AS t ON t.key = k.token
LEFT JOIN chain_stage AS c ON c.chain = s.chain AND c.stage = k.cut_by;

-- Speculative rounds; the fields of each are in its body. Empty where nothing was drafted.
CREATE VIEW rounds AS
SELECT id AS round, after_node, body FROM event WHERE kind = 'RoundRecord';

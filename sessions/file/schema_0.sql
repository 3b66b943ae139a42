-- The schema of drafts before the first release, kept so that they can be brought up to date:
-- times in seconds, no notes on the prompt, one preset, no extra columns, no views.
CREATE TABLE session (
    id INTEGER PRIMARY KEY CHECK (id = 1), title TEXT NOT NULL, created TEXT NOT NULL, closed TEXT,
    writer TEXT NOT NULL, full_logits INTEGER NOT NULL
) STRICT;
CREATE TABLE token (
    key INTEGER PRIMARY KEY, id INTEGER NOT NULL, bytes BLOB NOT NULL, kind INTEGER NOT NULL
) STRICT;
CREATE TABLE prompt (
    id INTEGER PRIMARY KEY CHECK (id = 1), text ANY NOT NULL, chat INTEGER NOT NULL,
    tokenize_s REAL NOT NULL
) STRICT;
CREATE TABLE prompt_token (
    position INTEGER PRIMARY KEY, token INTEGER NOT NULL, origin TEXT NOT NULL
) STRICT;
CREATE TABLE chain (id INTEGER PRIMARY KEY, spec TEXT NOT NULL) STRICT;
CREATE TABLE chain_stage (
    chain INTEGER NOT NULL, stage INTEGER NOT NULL, name TEXT NOT NULL, label TEXT NOT NULL,
    params TEXT NOT NULL, off INTEGER NOT NULL, divisor REAL, PRIMARY KEY (chain, stage)
) STRICT, WITHOUT ROWID;
CREATE TABLE step (
    node INTEGER PRIMARY KEY CHECK (node > 0), parent INTEGER NOT NULL, position INTEGER NOT NULL,
    token INTEGER NOT NULL, how TEXT NOT NULL, u REAL, low REAL NOT NULL, high REAL NOT NULL,
    raw_logprob REAL NOT NULL, final_prob REAL NOT NULL, rank INTEGER NOT NULL,
    entropy_raw REAL NOT NULL, entropy_final REAL NOT NULL, log_z_raw REAL NOT NULL,
    varentropy_raw REAL NOT NULL, weight_sum REAL, raw_logprobs BLOB, raw_probs BLOB,
    chain INTEGER NOT NULL, seed ANY NOT NULL, forward_s REAL NOT NULL, sample_s REAL NOT NULL,
    detokenize_s REAL NOT NULL, other_s REAL NOT NULL, total_s REAL NOT NULL,
    warmup INTEGER NOT NULL, reused INTEGER NOT NULL, kv_seen INTEGER NOT NULL,
    kv_stored INTEGER NOT NULL, kv_bytes INTEGER, kv_computed INTEGER NOT NULL,
    kv_cached INTEGER NOT NULL, kv_block_size INTEGER NOT NULL, stop_kind TEXT, stop_detail TEXT
) STRICT;
CREATE TABLE stage_result (
    at INTEGER PRIMARY KEY, survivors INTEGER NOT NULL, mass_removed REAL NOT NULL,
    entropy_before REAL, entropy REAL NOT NULL, log_z REAL NOT NULL, weight_sum REAL, logits BLOB,
    probs BLOB
) STRICT;
CREATE TABLE candidate (
    at INTEGER PRIMARY KEY, token INTEGER NOT NULL, raw_logit REAL, final_prob REAL, cut_by INTEGER,
    rank INTEGER
) STRICT;
CREATE TABLE logits (node INTEGER PRIMARY KEY, width INTEGER NOT NULL, vector BLOB NOT NULL) STRICT;
CREATE TABLE event (
    id INTEGER PRIMARY KEY, after_node INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL
) STRICT;

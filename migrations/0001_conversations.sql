-- Conversations, and their messages as a tree: an edit or a regeneration adds a sibling and overwrites nothing.
-- Times are Unix milliseconds. AUTOINCREMENT, so that an id a tab still holds never comes to mean another row.

CREATE TABLE conversations (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    title          TEXT    NOT NULL,
    created_at_ms  INTEGER NOT NULL,
    updated_at_ms  INTEGER NOT NULL,
    deleted_at_ms  INTEGER,
    active_leaf_id INTEGER,
    FOREIGN KEY (id, active_leaf_id) REFERENCES messages (conversation_id, id)
) STRICT;

CREATE INDEX conversations_newest_first ON conversations (updated_at_ms DESC, id DESC)
    WHERE deleted_at_ms IS NULL;

CREATE TABLE messages (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    -- No CASCADE here: SQLite limits nested foreign key actions to 1,000, and a chat may be deeper.
    -- A parent is older than its child, so the tree has no cycles and a path sorted by id runs root to leaf.
    parent_id       INTEGER CHECK (parent_id < id),
    role            TEXT    NOT NULL CHECK (role IN ('user', 'assistant')),
    state           TEXT    NOT NULL
                    CHECK (state IN ('streaming', 'complete', 'stopped', 'failed', 'interrupted')),
    output_tokens   INTEGER NOT NULL DEFAULT 0,
    created_at_ms   INTEGER NOT NULL,
    finished_at_ms  INTEGER,
    finish_reason   TEXT,
    error_code      TEXT,
    settings_json   TEXT,
    receipt_json    TEXT,
    -- Last: columns after a long text are reached only through its overflow pages.
    text            TEXT    NOT NULL DEFAULT '',
    UNIQUE (conversation_id, id),
    FOREIGN KEY (conversation_id, parent_id) REFERENCES messages (conversation_id, id)
) STRICT;

CREATE INDEX messages_by_parent ON messages (conversation_id, parent_id);

CREATE INDEX messages_streaming ON messages (id) WHERE state = 'streaming';

-- Text of an answer that is still streaming. Appending to messages.text would rewrite the whole answer at every
-- flush; a piece here touches one page. finish_answer moves the pieces into messages.text and deletes them.
CREATE TABLE answer_pieces (
    message_id    INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    seq           INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    text          TEXT    NOT NULL,
    PRIMARY KEY (message_id, seq)
) STRICT, WITHOUT ROWID;

-- What goes along with a message, where a reader is in a conversation, and where imported conversations came from.

-- Texts of attachments, each stored once: an edited question keeps the attachments of the old one.
CREATE TABLE attachment_texts (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    -- SHA-256 of the text.
    sha256 BLOB    NOT NULL UNIQUE,
    -- Last: a list of attachments must not read through it.
    text   TEXT    NOT NULL
) STRICT;

CREATE TABLE attachments (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    -- NULL: of the draft, not sent yet. By id, they are in the order in which they were attached.
    message_id      INTEGER,
    kind            TEXT    NOT NULL CHECK (kind IN ('text', 'markdown', 'code', 'pdf')),
    chars           INTEGER NOT NULL,
    pages           INTEGER,
    text_id         INTEGER NOT NULL REFERENCES attachment_texts (id),
    name            TEXT    NOT NULL,
    FOREIGN KEY (conversation_id, message_id) REFERENCES messages (conversation_id, id) ON DELETE CASCADE
) STRICT;

CREATE INDEX attachments_by_message ON attachments (conversation_id, message_id);

CREATE INDEX attachments_by_text ON attachments (text_id);

CREATE TRIGGER attachment_texts_unused AFTER DELETE ON attachments
WHEN NOT EXISTS (SELECT 1 FROM attachments WHERE text_id = old.text_id) BEGIN
    DELETE FROM attachment_texts WHERE id = old.text_id;
END;

-- Names only: the texts would make the index several times as large as all messages.
CREATE VIRTUAL TABLE attachment_search USING fts5 (
    name, content = 'attachments', content_rowid = 'id', tokenize = 'trigram remove_diacritics 1'
);

CREATE TRIGGER attachment_search_insert AFTER INSERT ON attachments BEGIN
    INSERT INTO attachment_search (rowid, name) VALUES (new.id, new.name);
END;

CREATE TRIGGER attachment_search_delete AFTER DELETE ON attachments BEGIN
    INSERT INTO attachment_search (attachment_search, rowid, name) VALUES ('delete', old.id, old.name);
END;

CREATE TABLE scroll_places (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
    message_id      INTEGER NOT NULL,
    above_px        INTEGER NOT NULL,
    FOREIGN KEY (conversation_id, message_id) REFERENCES messages (conversation_id, id) ON DELETE CASCADE
) STRICT;

CREATE TABLE conversation_origins (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
    -- Whose file, the conversation's name there, and SHA-256 of what was imported.
    source          TEXT    NOT NULL,
    source_id       TEXT    NOT NULL,
    sha256          BLOB    NOT NULL,
    imported_at_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX conversation_origins_by_source ON conversation_origins (source, source_id);
